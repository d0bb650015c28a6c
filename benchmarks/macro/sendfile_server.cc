// What does it cost to move a range of a file in the page cache to a socket, and nothing else?
// One thread, blocking sockets, one connection after another is served by its own poll turn: a
// request frame (int32 length 12, int64 position, int32 bytes) is answered by an 80-byte header
// and a sendfile of that range, as a Fetch response is.
#include <fcntl.h>
#include <gflags/gflags.h>
#include <poll.h>
#include <signal.h>
#include <sys/sendfile.h>

#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/macro/sockets.h"

DEFINE_int32(port, 0, "port on 127.0.0.1; 0 picks one and prints it");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_string(file, "", "the file to serve");

namespace gyre::bench {
namespace {

constexpr size_t kHeaderBytes = 80;

// False when the client is gone.
bool Serve(int client, int file) {
  char request[16];
  if (!ReadAll(client, request, sizeof(request))) return false;
  off_t position = static_cast<off_t>(GetInt32(request + 4)) << 32 | GetInt32(request + 8);
  size_t left = GetInt32(request + 12);
  char header[kHeaderBytes] = {};
  PutInt32(header, static_cast<uint32_t>(kHeaderBytes - 4 + left));
  if (send(client, header, sizeof(header), MSG_MORE | MSG_NOSIGNAL) < 0) return false;
  while (left > 0) {
    const ssize_t n = sendfile(client, file, &position, left);
    if (n <= 0) return false;
    left -= static_cast<size_t>(n);
  }
  return true;
}

[[noreturn]] void Run() {
  const int file = Checked(open(FLAGS_file.c_str(), O_RDONLY | O_CLOEXEC), FLAGS_file.c_str());
  const int listener = Listen("sendfile_server", FLAGS_port, FLAGS_congestion);
  std::vector<pollfd> watched = {{listener, POLLIN, 0}};
  for (;;) {
    Checked(poll(watched.data(), watched.size(), -1), "poll");
    for (size_t i = watched.size(); i-- > 1;) {
      if (watched[i].revents == 0 || Serve(watched[i].fd, file)) continue;
      close(watched[i].fd);
      watched.erase(watched.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (watched[0].revents != 0) {
      watched.push_back({Checked(accept(listener, nullptr, nullptr), "accept"), POLLIN, 0});
    }
  }
}

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  signal(SIGPIPE, SIG_IGN);  // sendfile has no MSG_NOSIGNAL.
  gyre::bench::Run();
}
