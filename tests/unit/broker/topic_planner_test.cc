#include "engine/broker/topic_planner.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

class TopicPlannerTest : public ::testing::Test {
 protected:
  TopicPlannerTest() {
    config_.node_id = 1;
    config_.num_partitions = 3;
  }

  TopicPlanner Planner() { return TopicPlanner(config_, Uuid{9, 9}, *image_, random_); }
  static NewTopic Topic(std::string name, int32_t partitions = 1, int16_t factor = 1) {
    NewTopic topic;
    topic.name = std::move(name);
    topic.num_partitions = partitions;
    topic.replication_factor = factor;
    return topic;
  }
  ErrorCode Create(const NewTopic& topic) { return Planner().Create(topic).error; }
  void Apply(std::vector<std::string> records) {
    MetadataDelta delta(image_);
    for (const std::string& record : records) ASSERT_TRUE(delta.Apply(record).ok());
    image_ = delta.Finish(image_->offset() + static_cast<int64_t>(records.size()), 1);
  }
  void Exists(const std::string& name) {
    TopicPlanner planner = Planner();
    ASSERT_EQ(planner.Create(Topic(name)).error, ErrorCode::kNone);
    Apply(planner.records());
  }

  BrokerConfig config_;
  Random random_{7};
  std::shared_ptr<const MetadataImage> image_ = std::make_shared<const MetadataImage>();
};

TEST_F(TopicPlannerTest, ATopicIsItsRecordItsConfigsAndItsPartitions) {
  NewTopic topic = Topic("t", 2);
  topic.configs = {{"retention.ms", "5"}};
  TopicPlanner planner = Planner();
  const NewTopicResult result = planner.Create(topic);
  EXPECT_EQ(result.error, ErrorCode::kNone);
  EXPECT_EQ(planner.records().size(), 4u);
  Apply(planner.records());
  const auto made = image_->FindTopic("t");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->id, result.id);
  EXPECT_EQ(made->configs.at("retention.ms"), "5");
  ASSERT_EQ(made->partitions.size(), 2u);
  EXPECT_EQ(made->partitions[1].leader, 1);
  EXPECT_EQ(made->partitions[1].leader_epoch, 0);
  EXPECT_EQ(made->partitions[1].directories, (std::vector<Uuid>{Uuid{9, 9}}));
}

TEST_F(TopicPlannerTest, MinusOneMeansTheBrokersDefault) {
  const NewTopicResult result = Planner().Create(Topic("t", -1, -1));
  EXPECT_EQ(result.error, ErrorCode::kNone);
  EXPECT_EQ(result.num_partitions, 3);
  EXPECT_EQ(result.replication_factor, 1);
}

TEST_F(TopicPlannerTest, BadCountsAreRefused) {
  EXPECT_EQ(Create(Topic("t", 0)), ErrorCode::kInvalidPartitions);
  EXPECT_EQ(Create(Topic("t", -2)), ErrorCode::kInvalidPartitions);
  EXPECT_EQ(Create(Topic("t", 1, 0)), ErrorCode::kInvalidReplicationFactor);
  EXPECT_EQ(Create(Topic("t", 1, -2)), ErrorCode::kInvalidReplicationFactor);
  EXPECT_EQ(Create(Topic("t", 1, 2)), ErrorCode::kInvalidReplicationFactor);
  EXPECT_EQ(Create(Topic("t", 10'001)), ErrorCode::kPolicyViolation);
  EXPECT_EQ(Create(Topic("t", INT32_MAX)), ErrorCode::kPolicyViolation);
}

TEST_F(TopicPlannerTest, NamesAreChecked) {
  Exists("here.now");
  EXPECT_EQ(Create(Topic("a b")), ErrorCode::kInvalidTopic);
  EXPECT_EQ(Create(Topic("here.now")), ErrorCode::kTopicAlreadyExists);
  EXPECT_EQ(Create(Topic("here_now")), ErrorCode::kInvalidTopic);
  TopicPlanner planner = Planner();
  EXPECT_EQ(planner.Create(Topic("x.y")).error, ErrorCode::kNone);
  EXPECT_EQ(planner.Create(Topic("x_y")).error, ErrorCode::kInvalidTopic);
}

TEST_F(TopicPlannerTest, ConfigsAreChecked) {
  NewTopic topic = Topic("t");
  topic.configs = {{"no.such.config", "1"}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidConfig);
  topic.configs = {{"retention.ms", "soon"}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidConfig);
  topic.configs = {{"retention.ms", std::nullopt}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidConfig);
}

TEST_F(TopicPlannerTest, AssignmentsPlaceThePartitions) {
  NewTopic topic = Topic("t", -1, -1);
  topic.assignments = {{1, {1}}, {0, {1}}};
  const NewTopicResult result = Planner().Create(topic);
  EXPECT_EQ(result.error, ErrorCode::kNone);
  EXPECT_EQ(result.num_partitions, 2);
}

TEST_F(TopicPlannerTest, BadAssignmentsAreRefused) {
  NewTopic topic = Topic("t", -1, -1);
  topic.assignments = {{0, {2}}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidReplicaAssignment);
  topic.assignments = {{0, {1, 1}}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidReplicaAssignment);
  topic.assignments = {{0, {}}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidReplicaAssignment);
  topic.assignments = {{0, {1}}, {0, {1}}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidReplicaAssignment);
  topic.assignments = {{1, {1}}};
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidReplicaAssignment);
  topic.assignments = {{0, {1}}};
  topic.num_partitions = 1;
  EXPECT_EQ(Create(topic), ErrorCode::kInvalidRequest);
}

TEST_F(TopicPlannerTest, OneRequestIsOneBoundedBatch) {
  TopicPlanner planner = Planner();
  EXPECT_EQ(planner.Create(Topic("a", 9'000)).error, ErrorCode::kNone);
  EXPECT_EQ(planner.Create(Topic("b", 9'000)).error, ErrorCode::kPolicyViolation);
  EXPECT_EQ(planner.Create(Topic("c", 100)).error, ErrorCode::kNone);
  EXPECT_EQ(planner.records().size(), 9'102u);
}

TEST_F(TopicPlannerTest, ATopicIsDeletedByNameOrById) {
  Exists("t");
  const Uuid id = image_->FindTopic("t")->id;
  const DeleteTopicResult by_name = Planner().Delete({"t", Uuid::kZero});
  EXPECT_EQ(by_name.error, ErrorCode::kNone);
  EXPECT_EQ(by_name.id, id);
  TopicPlanner planner = Planner();
  const DeleteTopicResult by_id = planner.Delete({std::nullopt, id});
  EXPECT_EQ(by_id.error, ErrorCode::kNone);
  EXPECT_EQ(by_id.name, "t");
  EXPECT_EQ(planner.Delete({"t", Uuid::kZero}).error, ErrorCode::kInvalidRequest);
  EXPECT_EQ(planner.records().size(), 1u);
}

TEST_F(TopicPlannerTest, UnknownTopicsAreSaidToBeUnknown) {
  EXPECT_EQ(Planner().Delete({"t", Uuid::kZero}).error, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(Planner().Delete({std::nullopt, Uuid{1, 2}}).error, ErrorCode::kUnknownTopicId);
}

TEST_F(TopicPlannerTest, RandomIdsAreVersionFourAndStartWithNoDash) {
  for (int i = 0; i < 1000; ++i) {
    const Uuid id = RandomUuid(random_);
    EXPECT_EQ(id.hi >> 12 & 0xf, 4u);
    EXPECT_EQ(id.lo >> 62, 2u);
    EXPECT_NE(id.ToString().front(), '-');
  }
}

}  // namespace
}  // namespace gyre
