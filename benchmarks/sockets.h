// What the peers and load clients of the benchmarks share: listening, connecting, whole reads
// and writes, and the CPU time of another process. Errors end the program with one line.
#ifndef GYRE_BENCHMARKS_SOCKETS_H_
#define GYRE_BENCHMARKS_SOCKETS_H_

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <string>

namespace gyre::bench {

[[noreturn]] inline void Die(const char* what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

inline int Checked(int result, const char* what) {
  if (result < 0) Die(what);
  return result;
}

// `congestion` names a TCP congestion control ("" keeps the system's); an accepted socket has its
// listener's.
inline void SetTcpOptions(int fd, const std::string& congestion) {
  const int one = 1;
  Checked(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
  if (congestion.empty()) return;
  Checked(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(), congestion.size()),
          "TCP_CONGESTION");
}

inline sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Listens on 127.0.0.1:`port` (0: any) and prints the line that the runner waits for.
inline int Listen(const char* program, int port, const std::string& congestion, int flags = 0) {
  const int fd = Checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), "socket");
  const int one = 1;
  Checked(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), "SO_REUSEADDR");
  SetTcpOptions(fd, congestion);
  sockaddr_in address = Loopback(port);
  socklen_t size = sizeof(address);
  Checked(bind(fd, reinterpret_cast<sockaddr*>(&address), size), "bind");
  Checked(listen(fd, 1024), "listen");
  Checked(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  printf("%s: listening on 127.0.0.1:%d\n", program, ntohs(address.sin_port));
  fflush(stdout);
  return fd;
}

inline int Connect(int port, const std::string& congestion) {
  const int fd = Checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  SetTcpOptions(fd, congestion);
  const sockaddr_in address = Loopback(port);
  Checked(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), "connect");
  return fd;
}

inline void WriteAll(int fd, const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(fd, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) Die("send");
    from += n;
    size -= static_cast<size_t>(n);
  }
}

// False at the end of the stream or on an error.
inline bool ReadAll(int fd, void* data, size_t size) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = recv(fd, to, size, MSG_WAITALL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

inline int64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// CPU time of all threads of a process so far, ended ones and io_uring's workers included.
// pid 0 is this process.
inline int64_t ProcessCpuNs(pid_t pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  if (pid != 0) {
    errno = clock_getcpuclockid(pid, &clock);
    if (errno != 0) Die("clock_getcpuclockid");
  }
  timespec t;
  Checked(clock_gettime(clock, &t), "clock_gettime");
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// A range request: int32 length (12), int64 position, int32 bytes. Its answer: a header that
// begins with the int32 length of what follows it, then the bytes.
inline constexpr size_t kRangeRequestBytes = 16;
inline constexpr size_t kRangeHeaderBytes = 80;

// Big-endian integers of the wire.
inline void PutInt32(char* to, uint32_t value) {
  value = htonl(value);
  memcpy(to, &value, sizeof(value));
}

inline uint32_t GetInt32(const char* from) {
  uint32_t value;
  memcpy(&value, from, sizeof(value));
  return ntohl(value);
}

// Length of the whole frames at the head of `data` (int32 length, then that many bytes); -1 if a
// length is negative or above `max`.
inline ssize_t WholeFrames(const char* data, size_t size, uint32_t max) {
  size_t end = 0;
  while (size - end >= 4) {
    const uint32_t length = GetInt32(data + end);
    if (length > max) return -1;
    if (size - end - 4 < length) break;
    end += 4 + length;
  }
  return static_cast<ssize_t>(end);
}

}  // namespace gyre::bench

#endif  // GYRE_BENCHMARKS_SOCKETS_H_
