// What does it cost to answer with a range of a file in the page cache, and nothing else? One
// thread, blocking sockets, each connection served in its poll turn: a request frame (int32 length
// 12, int64 position, int32 bytes) is answered by an 80-byte header and that range.
//   --method=sendfile   send(header, MSG_MORE), then sendfile
//   --method=pread      pread into a buffer, then one sendmsg of header and bytes
#include <fcntl.h>
#include <gflags/gflags.h>
#include <poll.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "port on 127.0.0.1; 0 picks one and prints it");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_string(file, "", "the file to serve");
DEFINE_string(method, "sendfile", "sendfile or pread");

namespace gyre::bench {
namespace {

bool SendRange(int client, int file, off_t position, size_t left) {
  char header[kRangeHeaderBytes] = {};
  PutInt32(header, static_cast<uint32_t>(kRangeHeaderBytes - 4 + left));
  if (send(client, header, sizeof(header), MSG_MORE | MSG_NOSIGNAL) < 0) return false;
  while (left > 0) {
    const ssize_t n = sendfile(client, file, &position, left);
    if (n <= 0) return false;
    left -= static_cast<size_t>(n);
  }
  return true;
}

bool CopyRange(int client, int file, off_t position, size_t size, std::vector<char>& buffer) {
  if (buffer.size() < size) buffer.resize(size);
  if (pread(file, buffer.data(), size, position) != static_cast<ssize_t>(size)) return false;
  char header[kRangeHeaderBytes] = {};
  PutInt32(header, static_cast<uint32_t>(kRangeHeaderBytes - 4 + size));
  iovec parts[] = {{header, sizeof(header)}, {buffer.data(), size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t sent = sendmsg(client, &message, MSG_NOSIGNAL | MSG_WAITALL);
  return sent == static_cast<ssize_t>(sizeof(header) + size);
}

// False when the client is gone.
bool Serve(int client, int file, std::vector<char>& buffer) {
  char request[kRangeRequestBytes];
  if (!ReadAll(client, request, sizeof(request))) return false;
  const off_t position = static_cast<off_t>(GetInt32(request + 4)) << 32 | GetInt32(request + 8);
  const size_t size = GetInt32(request + 12);
  return FLAGS_method == "pread" ? CopyRange(client, file, position, size, buffer)
                                 : SendRange(client, file, position, size);
}

[[noreturn]] void Run() {
  const int file = Checked(open(FLAGS_file.c_str(), O_RDONLY | O_CLOEXEC), FLAGS_file.c_str());
  const int listener = Listen("sendfile_server", FLAGS_port, FLAGS_congestion);
  std::vector<char> buffer;
  std::vector<pollfd> watched = {{listener, POLLIN, 0}};
  for (;;) {
    Checked(poll(watched.data(), watched.size(), -1), "poll");
    for (size_t i = watched.size(); i-- > 1;) {
      if (watched[i].revents == 0 || Serve(watched[i].fd, file, buffer)) continue;
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
