// What the admin listener makes of bytes: whole requests, halves, pipelines and garbage.
#include "engine/admin/http_request.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/admin/http_decoder.h"
#include "engine/admin/http_response.h"
#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

using State = HttpRequest::State;

const HttpLimits kLimits;

HttpRequest Parse(const std::string& bytes) { return ParseHttpRequest(bytes, kLimits); }

std::string Get(absl::string_view path) {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n");
}

TEST(HttpRequest, AGetIsRead) {
  const HttpRequest request =
      Parse("GET /flags?format=json&a=b%20c HTTP/1.1\r\nHost: h\r\nX-Y:  z \r\n\r\n");
  EXPECT_EQ(request.state, State::kComplete);
  EXPECT_EQ(request.refusal, 0);
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/flags");
  EXPECT_EQ(request.Parameter("format"), "json");
  EXPECT_EQ(request.Parameter("a"), "b c");
  EXPECT_EQ(request.Header("x-y"), "z");
  EXPECT_TRUE(request.keep_alive);
}

TEST(HttpRequest, EveryPrefixNeedsMore) {
  const std::string bytes = "PUT /flags/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n123";
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(Parse(bytes.substr(0, size)).state, State::kNeedMore) << size;
  }
  const HttpRequest request = Parse(bytes);
  EXPECT_EQ(request.state, State::kComplete);
  EXPECT_EQ(request.body, "123");
  EXPECT_EQ(request.frame_bytes, bytes.size());
}

TEST(HttpRequest, APipelineIsCutExactly) {
  const std::vector<std::string> requests = {
      Get("/a"),
      "POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na=b&c",
      "PUT /flags/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n2\r\n12\r\n1;ext=1\r\n3\r\n0\r\nT: 1\r\n\r\n",
      "GET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      Get("/c"),
  };
  std::string bytes;
  for (const std::string& request : requests) bytes += request;
  size_t at = 0;
  for (const std::string& expected : requests) {
    const HttpRequest request = Parse(bytes.substr(at));
    ASSERT_EQ(request.state, State::kComplete) << expected;
    EXPECT_EQ(request.frame_bytes, expected.size()) << expected;
    EXPECT_EQ(request.refusal, 0) << expected;
    EXPECT_TRUE(request.keep_alive) << expected;
    at += request.frame_bytes;
  }
  EXPECT_EQ(at, bytes.size());
}

TEST(HttpRequest, ChunksAreJoined) {
  const std::string bytes =
      "POST /flags HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(Parse(bytes.substr(0, size)).state, State::kNeedMore) << size;
  }
  EXPECT_EQ(Parse(bytes).body, "abc0123456789");
}

TEST(HttpRequest, WhatFollowsTheLastChunkIsNoHeader) {
  const HttpRequest request = Parse(
      "POST /flags HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: "
      "Content-Type\r\n\r\n"
      "3\r\na=1\r\n0\r\nContent-Type: application/json\r\nOrigin: x\r\n\r\n");
  EXPECT_EQ(request.state, State::kComplete);
  EXPECT_EQ(request.Header("content-type"), "");
  EXPECT_EQ(request.Header("origin"), "");
  EXPECT_EQ(request.Header("trailer"), "Content-Type");
}

TEST(HttpRequest, ConnectionsEndAsTheVersionSays) {
  EXPECT_FALSE(Parse("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(Parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
  EXPECT_FALSE(Parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").keep_alive);
}

TEST(HttpRequest, AnOfferToSwitchProtocolsIsPassedOver) {
  const std::string bytes =
      "GET /health HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "
      "h2c\r\n\r\n";
  const HttpRequest request = Parse(bytes + Get("/next"));
  EXPECT_EQ(request.state, State::kComplete);
  EXPECT_EQ(request.frame_bytes, bytes.size());
}

struct BadCase {
  std::string bytes;
  int status;
};

TEST(HttpRequest, BadRequestsAreRefusedWithTheirStatus) {
  const std::string long_text(9000, 'a');
  const BadCase cases[] = {
      {std::string("\x16\x03\x01\x02\x00\x01\x00", 7), 400},
      {std::string("\0\0\0\x1c\0\x12\0\3", 8), 400},
      {"hello\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET http://a/ HTTP/1.1\r\nA: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nno colon here\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n" + std::string(1, '\0'), 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2328\r\n" + long_text, 413},
      {"GET /" + long_text, 414},
      {"GET /" + long_text.substr(0, 3000) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
      {"GET / HTTP/1.1\r\nHost: a\r\nA: " + long_text, 431},
      {"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", 417},
      {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"GET / HTTP/3.7\r\n\r\n", 505},
      {"GET /\r\n\r\n", 505},
      // The body's extent is not known: what follows the head may be it.
      {"PUT /flags/a HTTP/1.1\r\nHost: a\r\n\r\n", 411},
      {"POST /flags HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 411},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
       501},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx", 400},
      {"GET / HTTP/1.1\r\n Content-Length: 1\r\nHost: a\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n 2\r\n\r\nx", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nA: b\rContent-Length: 1\r\n\r\nx", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
       400},
  };
  const HttpDecoder decoder(kLimits);
  for (const BadCase& bad : cases) {
    const HttpRequest request = Parse(bad.bytes);
    EXPECT_EQ(request.state, State::kRefused) << bad.bytes.substr(0, 60);
    EXPECT_EQ(request.refusal, bad.status) << bad.bytes.substr(0, 60);
    EXPECT_FALSE(request.keep_alive);
    EXPECT_NE(HttpReason(request.refusal), "") << request.refusal;
    // The engine hands it over for an answer.
    const FrameDecoder::Verdict verdict = decoder.Inspect(bad.bytes, 0);
    EXPECT_EQ(verdict.kind, FrameDecoder::Kind::kFrame);
    EXPECT_EQ(verdict.payload_bytes, static_cast<int64_t>(bad.bytes.size()));
  }
}

TEST(HttpRequest, ARefusedHeadIsKnownForOne) {
  const std::string long_text(9000, 'a');
  for (const std::string& bytes :
       {"HEAD /" + long_text, "HEAD /" + long_text.substr(0, 3000) + " HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\nA: " + long_text}) {
    const HttpRequest request = Parse(bytes);
    EXPECT_EQ(request.state, State::kRefused);
    EXPECT_EQ(request.method, "HEAD") << bytes.substr(0, 60);
  }
}

TEST(HttpRequest, ABodyThatIsALittleTooLongIsReadAndThenRefused) {
  const std::string head = "POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n";
  EXPECT_EQ(Parse(head).state, State::kNeedMore);
  EXPECT_EQ(Parse(head).frame_bytes, head.size() + 20000);
  const HttpRequest request = Parse(head + std::string(20000, 'x') + Get("/"));
  EXPECT_EQ(request.state, State::kComplete);
  EXPECT_EQ(request.frame_bytes, head.size() + 20000);
  EXPECT_EQ(request.refusal, 413);
  EXPECT_TRUE(request.keep_alive);
}

TEST(HttpRequest, AnAbsoluteUrlIsItsPath) {
  EXPECT_EQ(Parse(Get("http://h:1/metrics?x=1#f")).path, "/metrics");
  EXPECT_EQ(Parse(Get("http://h:1")).path, "/");
  EXPECT_EQ(Parse(Get("http://h?x=1/metrics")).path, "/");
  EXPECT_EQ(Parse(Get("http://h?x=1/metrics")).Parameter("x"), "1/metrics");
  EXPECT_EQ(Parse(Get("/version?from=http://h/metrics")).path, "/version");
}

TEST(HttpRequest, APathIsDecodedAndAPlusInItIsAPlus) {
  EXPECT_EQ(Parse(Get("/%66lags/max%5Fconnections?a=%62")).path, "/flags/max_connections");
  EXPECT_EQ(Parse(Get("/a+b%2")).path, "/a+b%2");
  EXPECT_EQ(Parse(Get("/a%3Fformat=json")).path, "/a?format=json");
  EXPECT_EQ(Parse(Get("/a%3Fformat=json")).query, "");
}

TEST(HttpRequest, FormsAreDecoded) {
  const auto pairs = ParseForm("a=1&b=%2Fx+y&c&&d=%");
  ASSERT_EQ(pairs.size(), 4u);
  EXPECT_EQ(pairs[1].second, "/x y");
  EXPECT_EQ(pairs[2], (std::pair<std::string, std::string>("c", "")));
  EXPECT_EQ(pairs[3].second, "%");
}

// What the decoder says of a request does not depend on how its bytes were cut, and it
// decides before its limit.
TEST(HttpDecoder, DecidesWithinItsLimitWhateverComes) {
  const HttpDecoder decoder(kLimits);
  Random random(7);
  const std::string seeds[] = {
      Get("/flags"),
      "POST /flags HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n", "P", std::string(1, '\0')};
  for (int round = 0; round < 300; ++round) {
    std::string bytes = seeds[random.Below(std::size(seeds))];
    const size_t size = 1 + random.Below(decoder.max_undecided_bytes());
    const bool letters = random.Below(2) == 0;
    while (bytes.size() < size) {
      bytes.push_back(static_cast<char>(letters ? 'a' + random.Below(26) : random.Below(256)));
    }
    for (int changes = 0; changes < 2; ++changes) {
      bytes[random.Below(std::min<size_t>(bytes.size(), 80))] =
          static_cast<char>(random.Below(256));
    }
    const FrameDecoder::Verdict verdict = decoder.Inspect(bytes, 0);
    EXPECT_NE(verdict.kind, FrameDecoder::Kind::kInvalid);
    if (bytes.size() >= decoder.max_undecided_bytes() - 1) {
      EXPECT_EQ(verdict.kind, FrameDecoder::Kind::kFrame);
    }
    if (verdict.kind == FrameDecoder::Kind::kFrame) {
      EXPECT_GT(verdict.payload_bytes, 0);
    }
  }
}

TEST(HttpResponse, AHeadHasTheLengthAndNoBody) {
  const Buffer full = EncodeHttpResponse({.status = 200, .body = "12345"}, false, true, 784111777);
  const Buffer head = EncodeHttpResponse({.status = 200, .body = "12345"}, true, true, 784111777);
  EXPECT_EQ(full.view(), absl::StrCat(head.view(), "12345"));
  EXPECT_TRUE(
      absl::StartsWith(head.view(), "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
  EXPECT_TRUE(absl::StrContains(head.view(), "Content-Length: 5\r\n"));
}

}  // namespace
}  // namespace gyre
