// The answers that a simulated client waits for: frames behind an int32 length, whole and
// in the order of its requests.
#ifndef GYRE_TESTS_SIMULATION_SIM_ANSWERS_H_
#define GYRE_TESTS_SIMULATION_SIM_ANSWERS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/endian.h"
#include "gtest/gtest.h"

namespace gyre::sim {

inline std::string Framed(absl::string_view payload) {
  std::string size(4, '\0');
  StoreBigEndian<int32_t>(size.data(), static_cast<int32_t>(payload.size()));
  return absl::StrCat(size, payload);
}

class ExpectedAnswers {
 public:
  void Expect(std::string payload) { expected_.push_back(std::move(payload)); }
  // The connection is gone, and with it what was due.
  void Clear() {
    incoming_.clear();
    expected_.clear();
  }
  // Fails the test at a frame that is not the next one due.
  void Receive(absl::string_view bytes) {
    absl::StrAppend(&incoming_, bytes);
    while (incoming_.size() >= 4) {
      const auto size = static_cast<size_t>(LoadBigEndian<int32_t>(incoming_.data()));
      if (incoming_.size() < 4 + size) return;
      if (expected_.empty()) {
        ADD_FAILURE() << "an answer nobody asked for";
        return;
      }
      EXPECT_TRUE(absl::string_view(incoming_).substr(4, size) == expected_.front())
          << "a wrong answer of " << size << " bytes, or one out of order; expected "
          << expected_.front().size() << " bytes of manner " << expected_.front().substr(0, 1);
      incoming_.erase(0, 4 + size);
      expected_.pop_front();
      ++answered_;
    }
  }

  size_t due() const { return expected_.size(); }
  // Nothing is due and nothing was begun.
  bool done() const { return expected_.empty() && incoming_.empty(); }
  int answered() const { return answered_; }
  std::string State() const {
    return absl::StrCat(expected_.size(), " answers due, ", incoming_.size(),
                        " bytes read of one of ", expected_.empty() ? 0 : expected_.front().size());
  }

 private:
  std::string incoming_;
  std::deque<std::string> expected_;
  int answered_ = 0;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_ANSWERS_H_
