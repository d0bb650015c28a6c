#!/usr/bin/env python3
"""Generates C++ from the message schemas of proto/schemas (notation: its README.md).

  protogen.py messages SOURCE SCHEMA...          schema files to one library: the source, and
                                                 beside it a header of each
  protogen.py api_table HEADER SCHEMA...         the table of apis and their versions
  protogen.py descriptors NAME SOURCE SCHEMA...  schemas as data (proto/descriptor.h)

The output depends on the input alone. Python's standard library is all it needs.
"""

import os
import re
import sys

NEVER = 32767  # wire::kNeverFlexible


class SchemaError(Exception):
    pass


# ---------------------------------------------------------------------------
# Model


class Struct:
    """A struct of a message: its fields, and the versions it can occur in."""

    def __init__(self, name, lo, hi):
        self.name = name
        self.lo, self.hi = lo, hi
        self.fields = []


class Field:
    """lo..hi are the versions that have it; null is a range or None; tag a number or None."""

    def __init__(self, name, base, array, lo, hi, null, default, tag, classic):
        self.name, self.base, self.array = name, base, array
        self.lo, self.hi = lo, hi
        self.null, self.default, self.tag, self.classic = null, default, tag, classic

    @property
    def member(self):
        """The field inside member functions, where some names are taken."""
        return "this->" + self.name if self.name in GENERATED_NAMES else self.name


class Message:
    """One encodable thing: a request, a response, a record, a key, a value."""

    def __init__(self, name, kind, number):
        self.name, self.kind, self.number = name, kind, number
        self.lo = self.hi = None
        self.flexible = None
        self.structs = {}  # name -> Struct, children before parents
        self.root = None


class Api:
    def __init__(self, name, number):
        self.name, self.number = name, number
        self.lo = self.hi = None
        self.flexible = None
        self.unstable = self.removed = False
        self.listeners = []


INTEGERS = {
    "int8": ("int8_t", "Int8", 1),
    "int16": ("int16_t", "Int16", 2),
    "uint16": ("uint16_t", "Uint16", 2),
    "int32": ("int32_t", "Int32", 4),
    "uint32": ("uint32_t", "Uint32", 4),
    "int64": ("int64_t", "Int64", 8),
}
FIXED = dict(INTEGERS)
FIXED["bool"] = ("bool", "Bool", 1)
FIXED["float64"] = ("double", "Float64", 8)
FIXED["uuid"] = ("Uuid", "Uuid", 16)
FIXED["error"] = ("ErrorCode", "ErrorCode", 2)
GENERATED_NAMES = {"version", "reader", "writer", "flexible", "size", "tags", "tag_count", "unknown"}
SPANS = {"string": "String", "bytes": "Bytes"}
ARRAY_ELEMENTS = {"int8", "int16", "int32", "int64", "uuid", "string"}


def is_primitive(base):
    return base in FIXED or base in SPANS or base == "records"


# ---------------------------------------------------------------------------
# Parser: a line is a declaration or a `}`. `//` starts a comment anywhere.

FIELD_RE = re.compile(
    r"^(?P<base>\w+)(?P<array>\[\])?(?P<null>\?[\d.]*)?\s+(?P<name>[a-z]\w*)"
    r"(?:\s*=\s*(?P<default>-?[\w.]+))?"
    r"(?P<attributes>(?:\s+(?:@[\d.]+|tag\s+\d+|classic))*)\s*(?P<open>\{)?$"
)


class Parser:
    def __init__(self, path):
        self.path = path
        self.comment = []
        self.apis, self.messages = [], []
        with open(path, encoding="utf-8") as f:
            self.lines = f.read().splitlines()
        self.number = 0

    def fail(self, text):
        raise SchemaError("%s:%d: %s" % (self.path, self.number, text))

    def next(self):
        """The next line that says something, stripped; None at the end."""
        while self.number < len(self.lines):
            line = self.lines[self.number].strip()
            self.number += 1
            if line.startswith("//"):
                if not self.apis and not self.messages:
                    self.comment.append(line[2:].strip())
                continue
            line = line.split("//")[0].rstrip()
            if line:
                return line
        return None

    def parse(self):
        while True:
            line = self.next()
            if line is None:
                return self
            match = re.match(r"^(api|record|data)\s+(\w+)(?:\s*=\s*(\d+))?\s*(\{|removed)$", line)
            if not match:
                self.fail("expected an api, record or data: " + line)
            kind, name, number, rest = match.groups()
            number = int(number) if number is not None else None
            if (number is None) != (kind == "data"):
                self.fail("apis and records have a number, data has none")
            if kind == "api":
                api = Api(name, number)
                self.apis.append(api)
                if rest == "removed":
                    api.removed = True
                else:
                    self.parse_api(api)
            else:
                self.parse_record(kind, name, number)

    def parse_api(self, api):
        while True:
            line = self.next()
            if line == "}":
                return
            if line is None:
                self.fail("unexpected end")
            words = line.split()
            if words[0] in ("request", "response"):
                message = Message(api.name + words[0].capitalize(), words[0], api.number)
                message.lo, message.hi, message.flexible = api.lo, api.hi, api.flexible
                self.parse_message(message)
            elif words[0] == "listeners":
                api.listeners = words[1:]
            else:
                if words[-1] == "unstable":
                    api.unstable = True
                    words.pop()
                self.directive(api, words)

    def parse_record(self, kind, name, number):
        """A record is one message, or a pair of sections named key and value."""
        message = Message(name, kind, number)
        while True:
            line = self.next()
            if line is None:
                self.fail("unexpected end")
            if line in ("key {", "value {"):
                section = line[:-2]
                part = Message(name + section.capitalize(), kind, number)
                for _ in range(2):
                    self.directive(part, self.next().split())
                self.parse_message(part)
                message = None
            elif line == "}":
                if message:
                    self.number -= 1
                    self.parse_message(message)
                return
            elif message is None:
                self.fail("expected key, value or }")
            elif line.split()[0] in ("versions", "flexible"):
                self.directive(message, line.split())
            else:
                self.number -= 1
                self.parse_message(message)
                return

    def directive(self, target, words):
        if words[0] == "versions" and len(words) == 2:
            target.lo, target.hi = self.range(words[1], 0, None)
        elif words[0] == "flexible" and len(words) == 2:
            target.flexible = NEVER if words[1] == "never" else self.range(words[1], 0, NEVER)[0]
        else:
            self.fail("unknown line: " + " ".join(words))

    def range(self, text, lo, hi):
        """`3`, `3..`, `..5` or `3..5`, where open ends are lo and hi."""
        match = re.match(r"^(\d*)(\.\.)?(\d*)$", text)
        if not match or not text:
            self.fail("not a range of versions: " + text)
        first, dots, last = match.groups()
        if not dots:
            return int(first), int(first)
        result = int(first) if first else lo, int(last) if last else hi
        if result[0] is None or result[1] is None or result[0] > result[1]:
            self.fail("not a range of versions: " + text)
        return result

    def parse_message(self, message):
        if message.lo is None or message.flexible is None:
            self.fail("versions and flexible come first")
        message.root = Struct(message.name, message.lo, message.hi)
        self.parse_fields(message, message.root)
        for struct in [message.root] + list(message.structs.values()):
            self.check(struct)
        self.messages.append(message)

    def parse_fields(self, message, struct):
        """Up to the closing brace."""
        while True:
            line = self.next()
            if line is None:
                self.fail("unexpected end")
            if line == "}":
                return
            shared = re.match(r"^struct\s+(\w+)(?:\s+@([\d.]+))?\s*\{$", line)
            if shared:
                lo, hi = self.range(shared.group(2) or "..", struct.lo, struct.hi)
                self.new_struct(message, shared.group(1), lo, hi)
                continue
            match = FIELD_RE.match(line)
            if not match:
                self.fail("not a field: " + line)
            self.parse_field(message, struct, match)

    def parse_field(self, message, struct, match):
        lo, hi, tag, classic = struct.lo, struct.hi, None, False
        words = match.group("attributes").split()
        while words:
            word = words.pop(0)
            if word == "tag":
                tag = int(words.pop(0))
            elif word == "classic":
                classic = True
            else:
                lo, hi = self.range(word[1:], struct.lo, struct.hi)
        if lo < struct.lo or hi > struct.hi:
            self.fail("a field outside the versions of its struct")
        base, array = match.group("base"), bool(match.group("array"))
        null = match.group("null")
        if null is not None:
            null = self.range(null[1:] or "..", lo, hi)
        if match.group("open"):
            self.new_struct(message, base, lo, hi)
        elif not is_primitive(base) and base not in message.structs:
            self.fail("unknown type " + base)
        if array and is_primitive(base) and base not in ARRAY_ELEMENTS:
            self.fail("no arrays of " + base)
        if null is not None and base in FIXED and not array:
            self.fail(base + " has no null")
        default = match.group("default")
        if default == "null" and null is None:
            self.fail("null as the default of a field that has none")
        if tag is not None and (message.flexible > lo or base == "records"):
            self.fail("tagged fields need flexible versions, and hold no records")
        field = Field(match.group("name"), base, array, lo, hi, null, default, tag, classic)
        struct.fields.append(field)

    def new_struct(self, message, name, lo, hi):
        if name in message.structs or name == message.name:
            self.fail("a second struct " + name)
        struct = Struct(name, lo, hi)
        self.parse_fields(message, struct)
        message.structs[name] = struct

    def check(self, struct):
        names = [f.name for f in struct.fields]
        tags = [f.tag for f in struct.fields if f.tag is not None]
        if len(set(names)) != len(names) or len(set(tags)) != len(tags):
            self.fail("a name or tag occurs twice in " + struct.name)


# ---------------------------------------------------------------------------
# Generator


def snake(name):
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def condition(lo, hi, outer_lo, outer_hi):
    """The C++ test that `version` lies in lo..hi, given that it lies in outer; None if it must."""
    parts = []
    if lo > outer_lo:
        parts.append("version >= %d" % lo)
    if hi < outer_hi:
        parts.append("version <= %d" % hi)
    if lo == hi and len(parts) == 2:
        return "version == %d" % lo
    return " && ".join(parts) if parts else None


class Emitter:
    """Lines of C++ with an indent."""

    def __init__(self):
        self.lines = []
        self.depth = 0

    def __call__(self, text=""):
        self.lines.append("  " * self.depth + text if text else "")

    def open(self, text):
        self(text + " {")
        self.depth += 1

    def close(self, text="}"):
        self.depth -= 1
        self(text)

    def text(self):
        return "\n".join(self.lines) + "\n"


class MessageGenerator:
    def __init__(self, message):
        self.message = message
        # A std::optional of a struct needs the struct complete, default initializers
        # included, and those of a nested struct are not until its outer struct ends. Such
        # structs, with what they are made of, stand before the message.
        self.outside = set()
        for struct in list(message.structs.values()) + [message.root]:
            for field in struct.fields:
                if field.null and not field.array and field.base in message.structs:
                    self.put_outside(field.base)

    def put_outside(self, name):
        self.outside.add(name)
        for field in self.message.structs[name].fields:
            if field.base in self.message.structs:
                self.put_outside(field.base)

    def cpp_name(self, struct_name):
        return self.message.name + struct_name if struct_name in self.outside else struct_name

    # Types and defaults.

    def value_type(self, field):
        if field.base in FIXED:
            element = FIXED[field.base][0]
        elif field.base in SPANS:
            element = "absl::string_view"
        elif field.base == "records":
            return "wire::RecordsView"
        else:
            element = self.cpp_name(field.base)
        if field.array:
            element = "std::vector<%s>" % element
        return "std::optional<%s>" % element if field.null else element

    def initializer(self, field):
        default = field.default
        if field.base == "records":
            return " = wire::RecordsView::Null()" if default == "null" else ""
        if field.null:
            if default == "null":
                return ""
            if field.base in SPANS and not field.array:
                return '{""}'
            return "{std::in_place}"
        if field.array or field.base in SPANS or field.base in ("uuid",):
            return ""
        if field.base == "error":
            return " = ErrorCode::kNone"
        if field.base == "bool":
            return " = " + (default or "false")
        if field.base in INTEGERS or field.base == "float64":
            return " = " + self.literal(field)
        return ""

    def literal(self, field):
        if field.default is None:
            return "0"
        value = field.default
        if value == "-2147483648":
            return "INT32_MIN"
        if value == "2147483647":
            return "INT32_MAX"
        if value == "9223372036854775807":
            return "INT64_MAX"
        return value

    def differs_from_default(self, field):
        """The C++ test for a tagged field that has to be written."""
        name = field.member
        if field.null:
            if field.default == "null":
                return "%s.has_value()" % name
            if field.array or field.base in SPANS:
                return "!%s.has_value() || !%s->empty()" % (name, name)
            return "!(%s == %s{})" % (name, self.cpp_name(field.base))
        if field.array or field.base in SPANS:
            return "!%s.empty()" % name
        if field.base == "bool":
            return ("!" if field.default == "true" else "") + name
        if field.base == "uuid":
            return "!%s.is_zero()" % name
        if field.base == "error":
            return "%s != ErrorCode::kNone" % name
        if field.base in FIXED:
            return "%s != %s" % (name, self.literal(field))
        return "!(%s == %s{})" % (name, self.cpp_name(field.base))

    # Versions.

    def flexible_literal(self, struct):
        """True or False if all versions of the struct agree, else None."""
        if struct.lo >= self.message.flexible:
            return True
        if struct.hi < self.message.flexible:
            return False
        return None

    def null_allowed(self, field):
        test = condition(field.null[0], field.null[1], field.lo, field.hi)
        return test or "true"

    # The smallest encoding of a struct in one version, and as an expression.

    def min_field_size(self, field, version):
        flexible = version >= self.message.flexible and not field.classic
        if field.array:
            return 1 if flexible else 4
        if field.base in FIXED:
            return FIXED[field.base][2]
        if field.base == "string":
            return 1 if flexible else 2
        if field.base in ("bytes", "records"):
            return 1 if flexible else 4
        if field.null:
            return 1
        return self.min_struct_size(self.message.structs[field.base], version)

    def min_struct_size(self, struct, version):
        size = 1 if version >= self.message.flexible else 0
        for field in struct.fields:
            if field.lo <= version <= field.hi and field.tag is None:
                size += self.min_field_size(field, version)
        return size

    def min_size_expression(self, struct, lo, hi):
        sizes = [(v, self.min_struct_size(struct, v)) for v in range(lo, hi + 1)]
        steps = []
        for version, size in sizes:
            if size == 0:
                raise SchemaError("%s.%s is empty in version %d" %
                                  (self.message.name, struct.name, version))
            if not steps or steps[-1][1] != size:
                steps.append((version, size))
        text = str(steps[0][1])
        for version, size in steps[1:]:
            text = "version >= %d ? %d : %s" % (version, size, text)
        return text

    # Header.

    def header(self, out):
        message = self.message
        for struct in message.structs.values():
            if struct.name in self.outside:
                out.open("struct " + self.cpp_name(struct.name))
                self.members(out, struct)
                out.close("};")
                out()
        out.open("struct " + message.name)
        if message.kind in ("request", "response"):
            api = message.name[: -len(message.kind)]
            out("static constexpr ApiKey kApiKey = ApiKey::k%s;" % api)
            if message.kind == "request":
                out("using Response = %sResponse;" % api)
        elif message.number is not None:
            out("static constexpr int16_t kRecordType = %d;" % message.number)
        out("static constexpr int16_t kMinVersion = %d;" % message.lo)
        out("static constexpr int16_t kMaxVersion = %d;" % message.hi)
        out("static constexpr int16_t kFirstFlexibleVersion = %s;" %
            ("wire::kNeverFlexible" if message.flexible == NEVER else message.flexible))
        out()
        for struct in message.structs.values():
            if struct.name in self.outside:
                out("using %s = %s;" % (struct.name, self.cpp_name(struct.name)))
                out()
                continue
            out.open("struct " + struct.name)
            self.members(out, struct)
            out.close("};")
            out()
        self.members(out, message.root)
        out.close("};")

    def members(self, out, struct):
        rows = []
        for field in struct.fields:
            declaration = "%s %s%s;" % (self.value_type(field), field.name, self.initializer(field))
            notes = []
            if (field.lo, field.hi) != (struct.lo, struct.hi):
                notes.append(self.range_note(field.lo, field.hi, struct))
            if field.null and field.null != (field.lo, field.hi):
                notes.append("null " + self.range_note(field.null[0], field.null[1], field))
            rows.append((declaration, ", ".join(notes)))
        if struct.hi >= self.message.flexible:
            rows.append(("wire::TaggedFields unknown_tagged_fields;", ""))
        width = max([len(d) for d, n in rows if n] or [0])
        for declaration, note in rows:
            out(declaration.ljust(width) + "  // " + note if note else declaration)
        if rows:
            out()
        out("bool Decode(wire::Reader& reader, int16_t version);")
        out("size_t EncodedSize(int16_t version) const;")
        out("void Encode(wire::Writer& writer, int16_t version) const;")
        out("bool operator==(const %s&) const = default;" % self.cpp_name(struct.name))

    @staticmethod
    def range_note(lo, hi, outer):
        if lo == hi:
            return "in %d" % lo
        if hi == outer.hi:
            return "from %d" % lo
        if lo == outer.lo:
            return "up to %d" % hi
        return "%d to %d" % (lo, hi)

    # Source.

    def source(self, out):
        for struct in list(self.message.structs.values()) + [self.message.root]:
            scope = self.message.name
            if struct.name in self.outside:
                scope = self.cpp_name(struct.name)
            elif struct is not self.message.root:
                scope += "::" + struct.name
            self.function(out, struct, "bool %s::Decode(wire::Reader& reader, int16_t version)" % scope,
                          self.decode_body)
            self.function(out, struct, "size_t %s::EncodedSize(int16_t version) const" % scope,
                          self.size_body)
            self.function(out, struct, "void %s::Encode(wire::Writer& writer, int16_t version) const" % scope,
                          self.encode_body)

    def function(self, out, struct, signature, body):
        inner = Emitter()
        inner.depth = 1
        body(inner, struct)
        text = inner.text()
        out(signature + " {")
        if re.search(r"\bflexible\b", text):
            literal = self.flexible_literal(struct)
            if literal is None:
                out("  const bool flexible = version >= %d;" % self.message.flexible)
            else:
                out("  constexpr bool flexible = %s;" % ("true" if literal else "false"))
        out.lines.extend(inner.lines)
        out("}")
        out()

    def groups(self, struct):
        """Untagged fields, cut into runs that the same versions have."""
        runs = []
        for field in struct.fields:
            if field.tag is not None:
                continue
            test = condition(field.lo, field.hi, struct.lo, struct.hi)
            if not runs or runs[-1][0] != test:
                runs.append((test, []))
            runs[-1][1].append(field)
        return runs

    def tagged(self, struct):
        return sorted((f for f in struct.fields if f.tag is not None), key=lambda f: f.tag)

    def each_run(self, out, struct, emit):
        for test, fields in self.groups(struct):
            if test:
                out.open("if (%s)" % test)
            emit(out, fields)
            if test:
                out.close()

    def open_flexible(self, out, struct):
        """Opens the block for the tagged fields; False if no version has one."""
        literal = self.flexible_literal(struct)
        if literal is False:
            return False
        if literal is None:
            out.open("if (flexible)")
        return True

    def close_flexible(self, out, struct):
        if self.flexible_literal(struct) is None:
            out.close()

    def flag(self, field):
        return "false" if field.classic else "flexible"

    def decode_body(self, out, struct):
        def run(out, fields):
            for field in fields:
                self.decode_field(out, field, tagged=False)

        self.each_run(out, struct, run)
        if self.open_flexible(out, struct):
            tagged = self.tagged(struct)
            if tagged:
                self.decode_tags(out, struct, tagged)
            else:
                out("reader.ReadTaggedFields(unknown_tagged_fields);")
            self.close_flexible(out, struct)
        out("return reader.ok();")

    def decode_tags(self, out, struct, tagged):
        outer_lo = max(struct.lo, self.message.flexible)
        out("wire::TagReader tags(reader);")
        out.open("while (tags.Next())")
        keyword = "if"
        for field in tagged:
            test = condition(field.lo, field.hi, outer_lo, struct.hi)
            test = "tags.tag() == %d" % field.tag + (" && " + test if test else "")
            if keyword == "if":
                out.open("if (%s)" % test)
            else:
                out.depth -= 1
                out.open("} else if (%s)" % test)
            keyword = "else"
            self.decode_field(out, field, tagged=True)
        out.depth -= 1
        out.open("} else")
        out("unknown_tagged_fields.Add(tags.tag(), tags.TakeValue());")
        out.close()
        out.close()

    def decode_field(self, out, field, tagged):
        name, flag = field.member, self.flag(field)
        null = self.null_allowed(field) if field.null else None
        if field.array:
            if is_primitive(field.base):
                arguments = [flag]
                function = "DecodeArray"
            else:
                element = self.message.structs[field.base]
                arguments = [flag, "version", self.min_size_expression(element, field.lo, field.hi)]
                function = "DecodeStructArray"
            if null:
                arguments.append(null)
            call = "wire::%s(reader, %s, %s)" % (function, name, ", ".join(arguments))
            if "?" in call:
                out("const size_t min_%s_size = %s;" % (field.name, arguments[2]))
                call = call.replace(arguments[2], "min_%s_size" % field.name)
            out("if (!%s) return false;" % call)
        elif field.base in FIXED:
            out("%s = reader.Read%s();" % (name, FIXED[field.base][1]))
        elif field.base in SPANS:
            if null:
                arguments = flag if null == "true" else flag + ", " + null
                out("%s = reader.ReadNullable%s(%s);" % (name, SPANS[field.base], arguments))
            else:
                out("%s = reader.Read%s(%s);" % (name, SPANS[field.base], flag))
        elif field.base == "records":
            out("%s = reader.ReadRecords(%s, %s);" % (name, flag, null or "false"))
        elif null:
            out("if (!wire::DecodeNullable(reader, %s, version, %s)) return false;" %
                (name, "true" if tagged else "false"))
        else:
            out("if (!%s.Decode(reader, version)) return false;" % name)

    def size_expression(self, field):
        """Bytes of the value: an int if it is always the same, else an expression."""
        name, flag = field.member, self.flag(field)
        if field.array:
            if is_primitive(field.base):
                return "wire::ArraySize(%s, %s)" % (name, flag)
            return "wire::StructArraySize(%s, %s, version)" % (name, flag)
        if field.base in FIXED:
            return FIXED[field.base][2]
        if field.base in SPANS:
            return "wire::%sSize(%s, %s)" % (SPANS[field.base], name, flag)
        if field.base == "records":
            return "wire::RecordsSize(%s, %s)" % (name, flag)
        if field.null:
            return "wire::NullableSize(%s, version)" % name
        return "%s.EncodedSize(version)" % name

    def size_body(self, out, struct):
        runs = self.groups(struct)
        constant = 0
        if runs and runs[0][0] is None:
            constant = sum(e for e in map(self.size_expression, runs[0][1]) if isinstance(e, int))
        literal = self.flexible_literal(struct)
        tagged = self.tagged(struct) if literal is not False else []
        out("size_t size = %d;" % constant)
        for index, (test, fields) in enumerate(runs):
            if test:
                out.open("if (%s)" % test)
            sizes = [self.size_expression(f) for f in fields]
            fixed = sum(e for e in sizes if isinstance(e, int))
            if fixed and not (index == 0 and test is None):
                out("size += %d;" % fixed)
            for expression in sizes:
                if not isinstance(expression, int):
                    out("size += %s;" % expression)
            if test:
                out.close()
        if self.open_flexible(out, struct):
            if tagged:
                out("size_t tag_count = unknown_tagged_fields.size();")
                for field in tagged:
                    out.open("if (%s)" % self.write_test(struct, field))
                    out("++tag_count;")
                    out("size += wire::TaggedSize(%d, %s);" % (field.tag, self.size_expression(field)))
                    out.close()
                out("size += wire::UvarintSize(tag_count) + unknown_tagged_fields.EncodedSize();")
            else:
                out("size += wire::UvarintSize(unknown_tagged_fields.size());")
                out("size += unknown_tagged_fields.EncodedSize();")
            self.close_flexible(out, struct)
        out("return size;")

    def write_test(self, struct, field):
        test = condition(field.lo, field.hi, max(struct.lo, self.message.flexible), struct.hi)
        differs = self.differs_from_default(field)
        if test is None:
            return differs
        return "%s && %s" % (test, "(%s)" % differs if "||" in differs else differs)

    def encode_body(self, out, struct):
        def run(out, fields):
            for field in fields:
                self.encode_field(out, field, tagged=False)

        self.each_run(out, struct, run)
        if self.open_flexible(out, struct):
            tagged = self.tagged(struct)
            if tagged:
                self.encode_tags(out, struct, tagged)
            else:
                out("writer.WriteUvarint(unknown_tagged_fields.size());")
                out("unknown_tagged_fields.Encode(writer);")
            self.close_flexible(out, struct)

    def encode_tags(self, out, struct, tagged):
        out("size_t tag_count = unknown_tagged_fields.size();")
        for field in tagged:
            out("const bool has_%s = %s;" % (field.name, self.write_test(struct, field)))
            out("if (has_%s) ++tag_count;" % field.name)
        out("writer.WriteUvarint(tag_count);")
        merges = tagged[-1].tag > 0
        if merges:
            out("size_t unknown = 0;")
        for field in tagged:
            out.open("if (has_%s)" % field.name)
            if field.tag > 0:
                out("unknown = unknown_tagged_fields.EncodeBelow(writer, unknown, %d);" % field.tag)
            out("writer.WriteTag(%d, %s);" % (field.tag, self.size_expression(field)))
            self.encode_field(out, field, tagged=True)
            out.close()
        if merges:
            out("unknown_tagged_fields.EncodeBelow(writer, unknown, UINT64_MAX);")
        else:
            out("unknown_tagged_fields.Encode(writer);")

    def encode_field(self, out, field, tagged):
        name, flag = field.member, self.flag(field)
        null = self.null_allowed(field) if field.null else None
        if field.array:
            if is_primitive(field.base):
                function, arguments = "EncodeArray", [flag]
            else:
                function, arguments = "EncodeStructArray", [flag, "version"]
            if null:
                arguments.append(null)
            out("wire::%s(writer, %s, %s);" % (function, name, ", ".join(arguments)))
        elif field.base in FIXED:
            out("writer.Write%s(%s);" % (FIXED[field.base][1], name))
        elif field.base in SPANS:
            arguments = [name, flag]
            if null and null != "true":
                arguments.append(null)
            out("writer.Write%s%s(%s);" %
                ("Nullable" if null else "", SPANS[field.base], ", ".join(arguments)))
        elif field.base == "records":
            out("writer.WriteRecords(%s, %s, %s);" % (name, flag, null or "false"))
        elif null:
            out("wire::EncodeNullable(writer, %s, version, %s);" %
                (name, "true" if tagged else "false"))
        else:
            out("%s.Encode(writer, version);" % name)


# ---------------------------------------------------------------------------
# Commands


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def banner(path):
    return "// Generated by tools/protogen from proto/schemas/%s. Do not edit." % (
        path.split("proto/schemas/")[-1])


def command_messages(source, schemas):
    out = Emitter()
    out("// Generated by tools/protogen. Do not edit.")
    parsed = []
    for schema in schemas:
        parsed.append(Parser(schema).parse())
        name = os.path.splitext(os.path.basename(schema))[0] + ".h"
        write_header(os.path.join(os.path.dirname(source), name), schema, parsed[-1])
        out('#include "proto/%s"' % name)
    for include in ("array", "reader", "writer"):
        out('#include "proto/wire/%s.h"' % include)
    out()
    out("namespace gyre::proto {")
    out()
    for message in [message for one in parsed for message in one.messages]:
        MessageGenerator(message).source(out)
    out("}  // namespace gyre::proto")
    write(source, out.text())


def write_header(header, schema, parsed):
    guard = "GYRE_PROTO_%s_" % re.sub(r"\W", "_", os.path.basename(header).upper())
    out = Emitter()
    out(banner(schema))
    out("//")
    for line in parsed.comment:
        out(("// " + line).rstrip())
    out("#ifndef " + guard)
    out("#define " + guard)
    out()
    out('#include "proto/wire/message.h"')
    out()
    out("namespace gyre::proto {")
    for message in parsed.messages:
        out()
        if message.kind == "request":
            out("struct %sResponse;" % message.name[: -len("Request")])
            out()
        MessageGenerator(message).header(out)
    out()
    out("}  // namespace gyre::proto")
    out()
    out("#endif  // " + guard)
    write(header, out.text())


def command_api_table(header, schemas):
    apis = [api for schema in schemas for api in Parser(schema).parse().apis]
    apis.sort(key=lambda api: api.number)
    if [api.number for api in apis] != list(range(len(apis))):
        raise SchemaError("the numbers of the apis have gaps or doubles")
    out = Emitter()
    out("// Generated by tools/protogen from proto/schemas/api. Do not edit.")
    out("//")
    out("// Every api by its number: the versions that the schemas describe.")
    out("#ifndef GYRE_PROTO_API_TABLE_H_")
    out("#define GYRE_PROTO_API_TABLE_H_")
    out()
    out('#include "proto/api_info.h"')
    out()
    out("namespace gyre::proto {")
    out()
    out("inline constexpr ApiInfo kApiTable[] = {")
    for api in apis:
        if api.removed:
            out("    {.key = ApiKey::k%s, .removed = true}," % api.name)
            continue
        flexible = "wire::kNeverFlexible" if api.flexible == NEVER else api.flexible
        flags = ""
        if api.unstable:
            flags += ", .max_version_unstable = true"
        for listener in ("broker", "controller"):
            if listener in api.listeners:
                flags += ", .on_%s_listener = true" % listener
        out("    {.key = ApiKey::k%s," % api.name)
        out("     .min_version = %d, .max_version = %d, .first_flexible_version = %s%s}," %
            (api.lo, api.hi, flexible, flags))
    out("};")
    out()
    out("}  // namespace gyre::proto")
    out()
    out("#endif  // GYRE_PROTO_API_TABLE_H_")
    write(header, out.text())


def command_descriptors(name, source, schemas):
    """A source file with DescriptorsOf_<name>(): one MessageDescriptor per message."""
    out = Emitter()
    out("// Generated by tools/protogen. Do not edit.")
    out('#include "proto/descriptor.h"')
    out('#include "proto/round_trip.h"')
    includes, messages = [], []
    for schema in schemas:
        parsed = Parser(schema).parse()
        if parsed.messages:
            includes.append('#include "proto/%s.h"' %
                            os.path.splitext(os.path.basename(schema))[0])
            messages.extend(parsed.messages)
    for include in sorted(includes):
        out(include)
    out()
    out("namespace gyre::proto {")
    out("namespace {")
    out()
    for message in messages:
        symbols = {}
        for struct in list(message.structs.values()) + [message.root]:
            symbol = "k%s_%s" % (message.name, struct.name)
            symbols[struct.name] = symbol
            if struct.fields:
                out("constexpr FieldDescriptor %s_fields[] = {" % symbol)
                for field in struct.fields:
                    out("    " + descriptor_row(field, symbols))
                out("};")
                out('constexpr StructDescriptor %s = {"%s", %s_fields};' %
                    (symbol, struct.name, symbol))
            else:
                out('constexpr StructDescriptor %s = {"%s", {}};' % (symbol, struct.name))
        out()
    out("}  // namespace")
    out()
    out("absl::Span<const MessageDescriptor> DescriptorsOf_%s() {" % name)
    out("  static constexpr MessageDescriptor kMessages[] = {")
    for message in messages:
        out('      {"%s", %d, %d, %d, &k%s_%s, &RoundTrip<%s>},' %
            (message.name, message.lo, message.hi, message.flexible, message.name, message.name,
             message.name))
    out("  };")
    out("  return kMessages;")
    out("}")
    out()
    out("}  // namespace gyre::proto")
    write(source, out.text())


def descriptor_row(field, symbols):
    kind = "kStruct"
    if is_primitive(field.base):
        kind = "k" + field.base.capitalize()
    null = field.null or (1, 0)
    default = field.default
    if default is None or default == "null":
        number = "0"
    elif default in ("true", "false"):
        number = "1" if default == "true" else "0"
    else:
        number = default if default != "-9223372036854775808" else "INT64_MIN"
    return (
        '{.name = "%s", .type = FieldType::%s, .array = %s, .min_version = %d, .max_version = %d, '
        ".null_min = %d, .null_max = %d, .tag = %d, .classic = %s, .default_null = %s, "
        ".default_number = %s, .element = %s},"
        % (field.name, kind, str(field.array).lower(), field.lo, field.hi, null[0], null[1],
           -1 if field.tag is None else field.tag, str(field.classic).lower(),
           str(default == "null").lower(), number,
           "nullptr" if is_primitive(field.base) else "&" + symbols[field.base]))


def main(arguments):
    if len(arguments) > 2 and arguments[0] == "messages":
        command_messages(arguments[1], arguments[2:])
    elif len(arguments) > 2 and arguments[0] == "api_table":
        command_api_table(arguments[1], arguments[2:])
    elif len(arguments) > 3 and arguments[0] == "descriptors":
        command_descriptors(arguments[1], arguments[2], arguments[3:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SchemaError as error:
        sys.exit("protogen: %s" % error)
