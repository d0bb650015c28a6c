"""protogen: what it refuses, and that its output follows from its input."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join("tools", "protogen"))
import protogen  # noqa: E402

API = """// An example.
api Example = 7 {
  versions 2..9
  flexible 6..
  listeners broker

  request {
%s
  }

  response {
    error error_code
  }
}
"""


class ProtogenTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def generate(self, text):
        paths = [os.path.join(self.directory.name, "example" + e) for e in (".schema", ".h", ".cc")]
        with open(paths[0], "w", encoding="utf-8") as f:
            f.write(text)
        protogen.command_messages(paths[2], paths[:1])
        outputs = []
        for path in paths[1:]:
            with open(path, encoding="utf-8") as f:
                outputs.append(f.read())
        return outputs

    def refuse(self, fields, reason):
        with self.assertRaises(protogen.SchemaError) as caught:
            self.generate(API % fields)
        self.assertIn(reason, str(caught.exception))

    def test_fields_become_members_with_their_versions(self):
        header, source = self.generate(API % "int32 a = -1 @3..8\nstring? b = null  // why\n")
        self.assertIn("// An example.", header)
        self.assertIn("int32_t a = -1;", header)
        self.assertIn("// 3 to 8", header)
        self.assertIn("std::optional<absl::string_view> b;", header)
        self.assertIn("if (version >= 3 && version <= 8) {", source)
        self.assertIn("static constexpr int16_t kFirstFlexibleVersion = 6;", header)

    def test_output_depends_on_the_input_alone(self):
        text = API % "Topic[] topics {\nstring name\n}\nint64 epoch = -1 @7.. tag 0\n"
        self.assertEqual(self.generate(text), self.generate(text))

    def test_smallest_element_follows_the_version(self):
        _, source = self.generate(API % "Topic[] topics {\nstring name\nint32 count @4..\n}\n")
        # Two bytes of length, four of count; compact, one, four, and one for the tags.
        self.assertIn("version >= 4 ? 6 : 2", source)

    def test_member_named_like_a_local_is_told_apart(self):
        _, source = self.generate(API % "int32 size\nint16 version\n")
        self.assertIn("this->version = reader.ReadInt16();", source)
        self.assertIn("writer.WriteInt32(this->size);", source)

    def test_refused_fields(self):
        self.refuse("int31 a", "unknown type int31")
        self.refuse("int32 a\nint32 a", "occurs twice")
        self.refuse("int32 a @6.. tag 0\nint32 b @6.. tag 0", "occurs twice")
        self.refuse("int32? a", "int32 has no null")
        self.refuse("string a = null", "null as the default")
        self.refuse("int32 a @1..", "outside the versions")
        self.refuse("int32 a @7..5", "not a range")
        self.refuse("int32 a tag 0", "need flexible versions")
        self.refuse("records a @6.. tag 0", "hold no records")
        self.refuse("bytes[] a", "no arrays of bytes")
        self.refuse("Topic[] a {\nint32 b\n}\nTopic[] c {\nint32 b\n}", "a second struct Topic")
        self.refuse("int32 A", "not a field")

    def test_array_of_structs_that_can_be_empty_is_refused(self):
        self.refuse("Topic[] a {\nint32 b @6..\n}", "is empty in version 2")

    def test_error_names_the_line(self):
        with self.assertRaises(protogen.SchemaError) as caught:
            self.generate(API % "    int32 a\n    what is this")
        self.assertIn("example.schema:9:", str(caught.exception))

    def test_cut_file_is_refused(self):
        for text in ("api Example = 7 {", "api Example = 7 {\nversions 1\nflexible 1..\nrequest {"):
            with self.assertRaises(protogen.SchemaError):
                self.generate(text)


if __name__ == "__main__":
    unittest.main()
