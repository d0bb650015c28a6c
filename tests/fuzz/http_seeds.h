// Well-formed inputs of the HTTP fuzzer: a byte for the cut, then requests.
#ifndef GYRE_TESTS_FUZZ_HTTP_SEEDS_H_
#define GYRE_TESTS_FUZZ_HTTP_SEEDS_H_

#include <string>
#include <vector>

namespace gyre {

inline std::vector<std::string> HttpSeeds() {
  const std::string requests[] = {
      "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
      "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /ready HTTP/1.0\r\n\r\n",
      "GET /flags?format=json&x=%41+b HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
      "PUT /flags/a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n12",
      "POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=1GET /connections?limit=3 "
      "HTTP/1.1\r\n\r\n",
      "POST /flags HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: "
      "chunked\r\n\r\n4\r\n{\"a\"\r\n5;x=y\r\n: 1 }\r\n0\r\nT: v\r\n\r\n",
      "POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x'),
      "GET /version HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
      "GET http://h:1/health#f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
  };
  std::vector<std::string> seeds;
  for (const std::string& request : requests) {
    for (const char cut : {'\x00', '\x06', '\xff'}) seeds.push_back(std::string(1, cut) + request);
  }
  return seeds;
}

}  // namespace gyre

#endif  // GYRE_TESTS_FUZZ_HTTP_SEEDS_H_
