#include "engine/uring/completion.h"

#include "gtest/gtest.h"

namespace gyre::uring {
namespace {

TEST(TokenTest, UnpacksWhatItPacked) {
  const Token token = {OpKind::kSendZeroCopy, 0xabcdef, 0x89abcdef};
  EXPECT_EQ(Token::Unpack(token.Pack()), token);
}

TEST(TokenTest, NoFieldRunsIntoAnother) {
  const Token token = {OpKind::kConnect, 0xffffff, 0};
  const Token back = Token::Unpack(token.Pack());
  EXPECT_EQ(back.generation, 0u);
  EXPECT_EQ(back.kind, OpKind::kConnect);
  EXPECT_EQ(Token::Unpack(Token{OpKind::kInternal, 0, UINT32_MAX}.Pack()).slot, 0u);
}

TEST(TokenTest, AnotherGenerationIsAnotherToken) {
  EXPECT_NE((Token{OpKind::kRecv, 5, 1}.Pack()), (Token{OpKind::kRecv, 5, 2}.Pack()));
}

}  // namespace
}  // namespace gyre::uring
