// The HTTP fuzzer's body as an ordinary test: over its seeds, and over seeds with a few
// bytes changed, cut or grown.
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/fuzz/http_check.h"
#include "tests/fuzz/http_seeds.h"

namespace gyre {
namespace {

constexpr uint64_t kSeed = 20261130;

TEST(HttpReplay, SeedsAreAnswered) {
  for (const std::string& seed : HttpSeeds()) EXPECT_GT(CheckHttp(seed), 0) << seed;
}

TEST(HttpReplay, DamagedSeedsAreAnsweredOrSurvive) {
  RecordProperty("seed", static_cast<int>(kSeed));
  std::mt19937_64 random(kSeed);
  int answered = 0;
  for (int round = 0; round < 400; ++round) {
    for (std::string input : HttpSeeds()) {
      for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
        const size_t position = 1 + random() % (input.size() - 1);
        switch (random() % 5) {
          case 0:
            input.insert(position, 1, static_cast<char>(random()));
            break;
          case 1:
            input.insert(position, std::string(random() % 300, static_cast<char>(random())));
            break;
          case 2:
            input.insert(position, "\r\n");
            break;
          case 3:
            input.resize(position + 1);
            break;
          default:
            input[position] = static_cast<char>(random());
            break;
        }
      }
      answered += CheckHttp(input);
    }
  }
  EXPECT_GT(answered, 1000);
}

}  // namespace
}  // namespace gyre
