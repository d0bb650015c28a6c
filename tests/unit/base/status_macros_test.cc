#include "engine/base/status_macros.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace gyre {
namespace {

absl::Status Missing() { return absl::NotFoundError("no such file"); }

absl::Status Layered(const absl::Status& inner, int* nouns_made) {
  GYRE_RETURN_IF_ERROR(inner, (++*nouns_made, std::string("segment 7")));
  return absl::AlreadyExistsError("went on");
}

absl::StatusOr<int> Doubled(absl::StatusOr<std::unique_ptr<int>> number) {
  GYRE_ASSIGN_OR_RETURN(const std::unique_ptr<int> value, std::move(number), "number");
  return *value * 2;
}

absl::StatusOr<int> Bare(absl::StatusOr<int> number) {
  int value;
  GYRE_ASSIGN_OR_RETURN(value, number);
  GYRE_ASSIGN_OR_RETURN(const int again, number);
  return value + again;
}

TEST(StatusMacrosTest, ReturnsTheErrorWithTheNounInFront) {
  int nouns_made = 0;
  const absl::Status status = Layered(Missing(), &nouns_made);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "segment 7: no such file");
  EXPECT_EQ(nouns_made, 1);
}

TEST(StatusMacrosTest, GoesOnWhenOkWithoutMakingTheNoun) {
  int nouns_made = 0;
  EXPECT_EQ(Layered(absl::OkStatus(), &nouns_made).message(), "went on");
  EXPECT_EQ(nouns_made, 0);
}

TEST(StatusMacrosTest, AssignsAMoveOnlyValue) {
  EXPECT_EQ(*Doubled(std::make_unique<int>(21)), 42);
  EXPECT_EQ(Doubled(Missing()).status().message(), "number: no such file");
}

TEST(StatusMacrosTest, WorksWithoutANoun) {
  EXPECT_EQ(*Bare(4), 8);
  EXPECT_EQ(Bare(Missing()).status().message(), "no such file");
}

}  // namespace
}  // namespace gyre
