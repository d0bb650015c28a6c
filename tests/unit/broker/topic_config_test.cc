#include "engine/broker/topic_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

bool Accepts(absl::string_view name, absl::string_view value) {
  return ValidateTopicConfig(name, value).ok();
}

TEST(TopicConfigTest, KeysAreSortedByNameSoThatTheyAreFound) {
  const auto keys = TopicConfigKeys();
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    return absl::string_view(a.name) < absl::string_view(b.name);
  }));
  for (const TopicConfigKey& key : keys) EXPECT_EQ(FindTopicConfigKey(key.name), &key);
  EXPECT_EQ(FindTopicConfigKey("retention"), nullptr);
}

TEST(TopicConfigTest, EveryDefaultIsLegal) {
  for (const TopicConfigKey& key : TopicConfigKeys()) {
    if (key.hidden) continue;
    EXPECT_TRUE(Accepts(key.name, key.default_value)) << key.name << "=" << key.default_value;
  }
}

TEST(TopicConfigTest, AnUnknownNameIsRefusedByName) {
  const absl::Status status = ValidateTopicConfig("no.such.config", "1");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("no.such.config"), absl::string_view::npos);
}

TEST(TopicConfigTest, NumbersAreHeldToTheirRanges) {
  EXPECT_TRUE(Accepts("retention.ms", "-1"));
  EXPECT_FALSE(Accepts("retention.ms", "-2"));
  EXPECT_FALSE(Accepts("retention.ms", "soon"));
  EXPECT_TRUE(Accepts("retention.ms", "9223372036854775807"));
  EXPECT_FALSE(Accepts("retention.ms", "9223372036854775808"));
  EXPECT_TRUE(Accepts("max.message.bytes", "0"));
  EXPECT_FALSE(Accepts("max.message.bytes", "2147483648"));
  EXPECT_FALSE(Accepts("segment.bytes", "1048575"));
  EXPECT_TRUE(Accepts("segment.bytes", "1048576"));
  EXPECT_TRUE(Accepts("internal.segment.bytes", "14"));
  EXPECT_TRUE(Accepts("min.cleanable.dirty.ratio", "0.25"));
  EXPECT_FALSE(Accepts("min.cleanable.dirty.ratio", "1.5"));
  EXPECT_FALSE(Accepts("min.cleanable.dirty.ratio", "nan"));
  EXPECT_TRUE(Accepts("compression.gzip.level", "9"));
  EXPECT_FALSE(Accepts("compression.gzip.level", "10"));
}

TEST(TopicConfigTest, ChoicesAreHeldToTheirLists) {
  EXPECT_TRUE(Accepts("cleanup.policy", "compact,delete"));
  EXPECT_TRUE(Accepts("cleanup.policy", "compact, delete"));
  EXPECT_FALSE(Accepts("cleanup.policy", "compact,shred"));
  EXPECT_TRUE(Accepts("compression.type", "zstd"));
  EXPECT_FALSE(Accepts("compression.type", "rar"));
  EXPECT_TRUE(Accepts("preallocate", "TRUE"));
  EXPECT_FALSE(Accepts("preallocate", "yes"));
  EXPECT_FALSE(Accepts("message.timestamp.type", "LogTime"));
}

TEST(TopicConfigTest, WhatRangesCannotSayIsCheckedToo) {
  EXPECT_TRUE(Accepts("compression.gzip.level", "-1"));
  EXPECT_FALSE(Accepts("compression.gzip.level", "0"));
  EXPECT_TRUE(Accepts("remote.storage.enable", "false"));
  EXPECT_FALSE(Accepts("remote.storage.enable", "true"));
  for (const char* name :
       {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}) {
    for (const char* value : {"", "*", "0:1", "0:1, 12:3"}) EXPECT_TRUE(Accepts(name, value));
    for (const char* value : {"0", "0:", "a:b", "-1:2", "*,0:1", "0:1:2"}) {
      EXPECT_FALSE(Accepts(name, value)) << value;
    }
  }
}

TEST(TopicConfigTest, TheCompactionLagsMustNotContradict) {
  EXPECT_TRUE(ValidateTogether({}).ok());
  EXPECT_TRUE(ValidateTogether({{"min.compaction.lag.ms", "10"}}).ok());
  EXPECT_TRUE(
      ValidateTogether({{"min.compaction.lag.ms", "10"}, {"max.compaction.lag.ms", "10"}}).ok());
  EXPECT_FALSE(
      ValidateTogether({{"min.compaction.lag.ms", "10"}, {"max.compaction.lag.ms", "9"}}).ok());
}

TEST(TopicConfigTest, ATopicsOwnValueWinsOverTheBrokersOverTheBuiltIn) {
  TopicConfigDefaults defaults;
  defaults.max_message_bytes = 5000;
  TopicConfig config = EffectiveTopicConfig({}, defaults);
  EXPECT_EQ(config.max_message_bytes, 5000);
  EXPECT_FALSE(config.cleanup_compact);
  config = EffectiveTopicConfig({{"max.message.bytes", "7000"},
                                 {"cleanup.policy", "compact"},
                                 {"message.timestamp.type", "LogAppendTime"},
                                 {"compression.type", "lz4"}},
                                defaults);
  EXPECT_EQ(config.max_message_bytes, 7000);
  EXPECT_TRUE(config.cleanup_compact);
  EXPECT_FALSE(config.cleanup_delete);
  EXPECT_TRUE(config.log_append_time);
  EXPECT_EQ(config.compression, CompressionTypeConfig::kLz4);
}

TEST(TopicConfigTest, AnIllegalStoredValueIsSkipped) {
  const TopicConfig config = EffectiveTopicConfig({{"segment.bytes", "tiny"}}, {});
  EXPECT_EQ(config.segment_bytes, TopicConfigDefaults().segment_bytes);
}

TEST(TopicConfigTest, TheListSaysWhereEachValueComesFrom) {
  TopicConfigDefaults defaults;
  defaults.segment_bytes = 2'000'000;
  const auto list =
      ListTopicConfig({{"retention.ms", "1000"}, {"internal.segment.bytes", "100"}}, defaults);
  const auto find = [&](absl::string_view name) {
    return std::find_if(list.begin(), list.end(),
                        [&](const TopicConfigEntry& entry) { return entry.name == name; });
  };
  EXPECT_EQ(find("retention.ms")->source, TopicConfigEntry::kTopic);
  EXPECT_EQ(find("retention.ms")->value, "1000");
  EXPECT_EQ(find("segment.bytes")->source, TopicConfigEntry::kStaticBroker);
  EXPECT_EQ(find("segment.bytes")->value, "2000000");
  EXPECT_EQ(find("cleanup.policy")->source, TopicConfigEntry::kDefault);
  EXPECT_EQ(find("internal.segment.bytes"), list.end());
}

}  // namespace
}  // namespace gyre
