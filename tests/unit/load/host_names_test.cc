// Look-ups that take their time, and who does not wait for them.
#include "tools/load/host_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "engine/concurrent/mutex.h"
#include "gtest/gtest.h"
#include "proto/metadata.h"
#include "tools/load/kafka/cluster.h"

namespace gyre::load {
namespace {

constexpr int64_t kPatienceNs = 20'000'000'000;

// A resolver that answers 10.0.0.N when it is let, N being how often it was asked.
class Resolver {
 public:
  absl::StatusOr<SocketAddress> LookUp(const std::string& host) {
    MutexLock lock(mutex_);
    ++asked_;
    while (!answers_) changed_.Wait(mutex_);
    if (!failure_.ok()) return failure_;
    SocketAddress address;
    auto& ip = reinterpret_cast<sockaddr_in&>(address.storage);
    ip.sin_family = AF_INET;
    ip.sin_addr.s_addr = htonl(0x0a000000u + static_cast<uint32_t>(asked_));
    address.size = sizeof(ip);
    return address;
  }
  void Answer(absl::Status failure = absl::OkStatus()) {
    MutexLock lock(mutex_);
    answers_ = true;
    failure_ = std::move(failure);
    changed_.NotifyAll();
  }
  int asked() {
    MutexLock lock(mutex_);
    return asked_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool answers_ = false;
  absl::Status failure_;
  int asked_ = 0;
};

class HostNamesTest : public ::testing::Test {
 protected:
  // The look-up's thread may be the last to let go of it.
  std::shared_ptr<Resolver> resolver_ = std::make_shared<Resolver>();
  HostNames hosts_{
      [resolver = resolver_](const std::string& host) { return resolver->LookUp(host); }};
  std::atomic<bool> interrupted_{false};

  ~HostNamesTest() override { resolver_->Answer(); }

  absl::StatusOr<SocketAddress> Await(int64_t timeout_ns = kPatienceNs) {
    return hosts_.Await("broker.example", 9092, timeout_ns, interrupted_);
  }
};

TEST_F(HostNamesTest, ALiteralNeedsNoLookUp) {
  EXPECT_EQ(hosts_.Find("127.0.0.1", 9092)->ToString(), "127.0.0.1:9092");
  EXPECT_EQ(hosts_.Find("::1", 9092)->ToString(), "[::1]:9092");
  EXPECT_EQ(resolver_->asked(), 0);
}

TEST_F(HostNamesTest, FindDoesNotWaitAndAsksOnce) {
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = hosts_.Find("broker.example", 9092).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "\"broker.example\"")) << status;
  }
  resolver_->Answer();
  ASSERT_TRUE(Await().ok());
  EXPECT_EQ(hosts_.Find("broker.example", 9093)->ToString(), "10.0.0.1:9093");
  EXPECT_EQ(resolver_->asked(), 1);
}

TEST_F(HostNamesTest, AWaitEndsByItsTimeOrAnInterruptionAndSaysSo) {
  const absl::Status late = Await(1).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_TRUE(absl::StrContains(late.message(), "\"broker.example\": its address could not be"))
      << late;
  interrupted_ = true;
  EXPECT_TRUE(absl::IsCancelled(Await().status()));
}

TEST_F(HostNamesTest, WhatFailedIsToldAndTriedAgain) {
  resolver_->Answer(absl::UnavailableError("no such host"));
  EXPECT_EQ(Await().status().message(), "no such host");
  resolver_->Answer();
  ASSERT_TRUE(Await().ok());
  EXPECT_EQ(hosts_.Find("broker.example", 1)->ToString(), "10.0.0.2:1");
}

TEST_F(HostNamesTest, MetadataIsAppliedWithoutWaiting) {
  proto::MetadataResponse response;
  for (int32_t node : {1, 2}) {
    auto& broker = response.brokers.emplace_back();
    broker.node_id = node;
    broker.host = node == 1 ? "broker.example" : "127.0.0.1";
    broker.port = 9092;
  }
  auto& topic = response.topics.emplace_back();
  topic.name = "t";
  topic.partitions.emplace_back().leader_id = 1;
  Cluster cluster;
  const absl::Status status = ApplyMetadata(response, "t", hosts_, &cluster);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "sends clients to broker.example:9092"))
      << status;
  resolver_->Answer();
  ASSERT_TRUE(Await().ok());
  EXPECT_TRUE(ApplyMetadata(response, "t", hosts_, &cluster).ok());
  EXPECT_EQ(cluster.LeaderOf(0)->ToString(), "10.0.0.1:9092");
}

TEST(SystemNamesTest, AreFoundOrRefusedWithTheirName) {
  HostNames hosts;
  const std::atomic<bool> interrupted{false};
  EXPECT_TRUE(hosts.Await("localhost", 80, kPatienceNs, interrupted).ok());
  // No name, so no resolver is asked over a network.
  const absl::Status status = hosts.Await("no..name", 80, kPatienceNs, interrupted).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "\"no..name\"")) << status;
}

}  // namespace
}  // namespace gyre::load
