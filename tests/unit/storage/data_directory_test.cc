#include "engine/storage/data_directory.h"

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

class DataDirectoryTest : public testing::Test {
 protected:
  DataDirectoryTest() {
    options_.node_id = 3;
    options_.fresh_cluster_id = Uuid{1, 2};
    options_.fresh_directory_id = Uuid{3, 4};
  }

  absl::StatusOr<std::unique_ptr<DataDirectory>> Open() {
    return DataDirectory::Open(disk_, "/data", options_);
  }
  void WriteMeta(const std::string& text) {
    ASSERT_TRUE(disk_.CreateDirectory("/data").ok());
    ASSERT_TRUE(disk_.WriteFileAtomically("/data/meta.properties", text).ok());
  }
  // The one line that a person sees.
  std::string Error() {
    const auto opened = Open();
    EXPECT_FALSE(opened.ok());
    const std::string message(opened.status().message());
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_TRUE(absl::StrContains(message, "/data")) << message;
    return message;
  }

  FaultInjectingFileSystem disk_{1};
  DataDirectoryOptions options_;
};

TEST_F(DataDirectoryTest, ANewDirectoryGetsItsIdentity) {
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->is_new());
  EXPECT_TRUE((*opened)->was_clean_stop());
  const std::string text = *disk_.ReadFile("/data/meta.properties");
  EXPECT_TRUE(absl::StrContains(text, absl::StrCat("cluster.id=", Uuid{1, 2}.ToString(), "\n")));
  EXPECT_TRUE(absl::StrContains(text, absl::StrCat("directory.id=", Uuid{3, 4}.ToString(), "\n")));
  EXPECT_TRUE(absl::StrContains(text, "node.id=3\n"));
  EXPECT_TRUE(absl::StrContains(text, "version=1\n"));
}

TEST_F(DataDirectoryTest, ACheckTakesNothingAndSaysWhatOpenWould) {
  const auto check = [&] { return DataDirectory::Check(disk_, "/data", options_); };
  EXPECT_TRUE(check().ok()) << check();
  EXPECT_FALSE(*disk_.Exists("/data"));
  {
    const auto holder = Open();
    ASSERT_TRUE(holder.ok());
    EXPECT_TRUE(check().ok()) << check();  // without the lock
    ASSERT_TRUE((*holder)->WriteCleanStopMarker(7).ok());
  }
  options_.node_id = 4;
  EXPECT_TRUE(absl::StrContains(check().message(), "/data: belongs to node 3, this is node 4"));
  options_.node_id = 3;
  options_.cluster_id = Uuid{9, 9};
  EXPECT_TRUE(absl::StrContains(check().message(), "belongs to cluster"));
  options_.cluster_id.reset();
  // Neither those nor an Open that is refused used the marker up.
  options_.node_id = 4;
  EXPECT_FALSE(Open().ok());
  options_.node_id = 3;
  EXPECT_EQ((*Open())->last_broker_epoch(), 7);
}

TEST_F(DataDirectoryTest, TheIdentityStays) {
  ASSERT_TRUE(Open().ok());
  options_.fresh_cluster_id = Uuid{5, 6};
  options_.fresh_directory_id = Uuid{7, 8};
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE((*opened)->is_new());
  EXPECT_EQ((*opened)->cluster_id(), (Uuid{1, 2}.ToString()));
  EXPECT_EQ((*opened)->directory_id(), (Uuid{3, 4}));
}

TEST_F(DataDirectoryTest, AFileThatKafkaFormattedIsRead) {
  WriteMeta(
      "#\n#Tue Jan 02 03:04:05 UTC 2024\nnode.id=3\ndirectory.id=AAAAAAAAAAAAAAAAAAAAZQ\n"
      "version=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n");
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->cluster_id(), "4L6g3nShT-eMCtK--X86sw");
  EXPECT_FALSE((*opened)->was_clean_stop());
}

TEST_F(DataDirectoryTest, ADirectoryInUseIsRefused) {
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::StrContains(Error(), "in use by another process"));
}

TEST_F(DataDirectoryTest, ANewerVersionIsRefused) {
  WriteMeta(absl::StrCat("version=2\nnode.id=3\ncluster.id=x\ndirectory.id=", Uuid{3, 4}.ToString(),
                         "\n"));
  EXPECT_TRUE(absl::StrContains(Error(), "version 2"));
}

TEST_F(DataDirectoryTest, AnotherNodesDirectoryIsRefused) {
  {
    ASSERT_TRUE(Open().ok());
  }
  options_.node_id = 4;
  const std::string error = Error();
  EXPECT_TRUE(absl::StrContains(error, "belongs to node 3")) << error;
}

TEST_F(DataDirectoryTest, AnotherClustersDirectoryIsRefused) {
  {
    ASSERT_TRUE(Open().ok());
  }
  options_.cluster_id = Uuid{9, 9};
  EXPECT_TRUE(absl::StrContains(Error(), "belongs to cluster"));
}

TEST_F(DataDirectoryTest, DamagedPropertiesAreRefused) {
  WriteMeta("version=1\nnode.id=3\n");
  EXPECT_TRUE(absl::StrContains(Error(), "lacks"));
  WriteMeta("nothing\n");
  EXPECT_TRUE(absl::StrContains(Error(), "no version"));
}

TEST_F(DataDirectoryTest, PartitionsWithoutPropertiesAreNotTakenOver) {
  ASSERT_TRUE(disk_.CreateDirectory("/data").ok());
  ASSERT_TRUE(disk_.CreateDirectory("/data/topic-0").ok());
  EXPECT_TRUE(absl::StrContains(Error(), "topic-0"));
}

TEST_F(DataDirectoryTest, APartitionsDirectoryIsNotTakenOver) {
  ASSERT_TRUE(disk_.CreateDirectory("/data").ok());
  ASSERT_TRUE(disk_.WriteFileAtomically("/data/00000000000000000000.log", "").ok());
  ASSERT_TRUE(disk_.WriteFileAtomically("/data/partition.metadata", "").ok());
  EXPECT_TRUE(absl::StrContains(Error(), "is the directory of one partition")) << Error();
  EXPECT_FALSE(DataDirectory::Check(disk_, "/data", options_).ok());
  EXPECT_FALSE(*disk_.Exists("/data/meta.properties"));
}

TEST_F(DataDirectoryTest, ADirectoryWithSomebodysFilesIsNotTakenOver) {
  ASSERT_TRUE(disk_.CreateDirectory("/data").ok());
  ASSERT_TRUE(disk_.WriteFileAtomically("/data/thesis.tex", "").ok());
  EXPECT_TRUE(absl::StrContains(Error(), "holds \"thesis.tex\"")) << Error();
  EXPECT_FALSE(DataDirectory::Check(disk_, "/data", options_).ok());
  EXPECT_FALSE(*disk_.Exists("/data/meta.properties"));
  ASSERT_TRUE(disk_.Remove("/data/thesis.tex").ok());
  // What a file system makes, and what a first start that was cut short leaves.
  ASSERT_TRUE(disk_.CreateDirectory("/data/lost+found").ok());
  for (const char* name : {".lock", ".hidden", "meta.properties.tmp", "takeover.sock",
                           "recovery-point-offset-checkpoint"}) {
    ASSERT_TRUE(disk_.WriteFileAtomically(absl::StrCat("/data/", name), "").ok());
  }
  const auto opened = Open();
  EXPECT_TRUE(opened.ok()) << opened.status();
}

TEST_F(DataDirectoryTest, ADiskErrorIsToldWithItsPlace) {
  disk_.InjectFault({Fault::Operation::kCreateDirectory});
  Error();
}

TEST_F(DataDirectoryTest, TheCleanMarkerCarriesTheBrokerEpoch) {
  {
    const auto opened = Open();
    ASSERT_TRUE((*opened)->WriteCleanStopMarker(124).ok());
    EXPECT_EQ(*disk_.ReadFile("/data/.kafka_cleanshutdown"), "{\"version\":0,\"brokerEpoch\":124}");
  }
  const auto opened = Open();
  EXPECT_TRUE((*opened)->was_clean_stop());
  EXPECT_EQ((*opened)->last_broker_epoch(), 124);
}

TEST_F(DataDirectoryTest, CheckpointsAreReadBack) {
  const auto opened = Open();
  const OffsetMap offsets = {{{"a", 0}, 5}, {{"b-c", 11}, 0}, {{"a", 1}, int64_t{1} << 40}};
  ASSERT_TRUE((*opened)->WriteHighWatermarks(offsets).ok());
  EXPECT_EQ(*(*opened)->ReadHighWatermarks(), offsets);
  EXPECT_TRUE((*opened)->ReadLogStartOffsets()->empty());
}

TEST_F(DataDirectoryTest, ADamagedCheckpointIsToldWithItsLine) {
  const auto opened = Open();
  for (const char* text : {"", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n",
                           "0\n1\na -1 5\n", "0\n1\na 0 -5\n"}) {
    ASSERT_TRUE(disk_.WriteFileAtomically("/data/recovery-point-offset-checkpoint", text).ok());
    EXPECT_TRUE(absl::IsDataLoss((*opened)->ReadRecoveryPoints().status())) << text;
  }
}

TEST(TopicPartitionTest, NamesAreParsedBack) {
  EXPECT_EQ(TopicPartition::Parse("a-0"), (TopicPartition{"a", 0}));
  EXPECT_EQ(TopicPartition::Parse("a-b-12"), (TopicPartition{"a-b", 12}));
  EXPECT_EQ(TopicPartition::Parse("__cluster_metadata-0"),
            (TopicPartition{"__cluster_metadata", 0}));
  for (const char* name : {"", "a", "a-", "-1", "a-01", "a--1x", "a-1.x-delete", "a-99999999999"}) {
    EXPECT_FALSE(TopicPartition::Parse(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace gyre
