// A ring that does nothing but remember what was asked of it, for tests of one
// unit. The test invents the completions.
#ifndef GYRE_TESTS_UNIT_NETWORK_FAKE_RING_H_
#define GYRE_TESTS_UNIT_NETWORK_FAKE_RING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/uring/ring.h"

namespace gyre {

class FakeRing : public uring::Ring {
 public:
  struct Submission {
    enum class Kind { kSend, kSendMessage, kSendZeroCopy, kSendMessageZeroCopy, kPoll, kCancel };
    Kind kind;
    uring::Token token;
    std::string bytes;
    int registered_index = -1;
    bool more_follows = false;
    uring::Token target;
  };

  bool zero_copy = true;
  bool zero_copy_reported = true;
  std::vector<Submission> submissions;

  // The one that was submitted last, and no longer remembered.
  Submission Take() {
    Submission last = submissions.back();
    submissions.pop_back();
    return last;
  }

  absl::Status Attach() override { return absl::OkStatus(); }
  void AcceptMultishot(uring::Token, int) override {}
  void AcceptOnce(uring::Token, int) override {}
  void RecvProvided(uring::Token, int) override {}
  void RecvProvidedOnce(uring::Token, int) override {}
  void RecvInto(uring::Token, int, char*, size_t) override {}
  void SendMessage(uring::Token token, int, const msghdr* message, bool more_follows) override {
    submissions.push_back(
        {Submission::Kind::kSendMessage, token, Gathered(*message), -1, more_follows, {}});
  }
  void Send(uring::Token token, int, const char* from, size_t size_bytes,
            bool more_follows) override {
    submissions.push_back(
        {Submission::Kind::kSend, token, std::string(from, size_bytes), -1, more_follows, {}});
  }
  void SendZeroCopy(uring::Token token, int, const char* from, size_t size_bytes,
                    int registered_index, bool more_follows) override {
    submissions.push_back({Submission::Kind::kSendZeroCopy,
                           token,
                           std::string(from, size_bytes),
                           registered_index,
                           more_follows,
                           {}});
  }
  void SendMessageZeroCopy(uring::Token token, int, const msghdr* message,
                           bool more_follows) override {
    submissions.push_back(
        {Submission::Kind::kSendMessageZeroCopy, token, Gathered(*message), -1, more_follows, {}});
  }
  void Poll(uring::Token token, int, uint32_t) override {
    submissions.push_back({Submission::Kind::kPoll, token, "", -1, false, {}});
  }
  void Connect(uring::Token, int, const sockaddr*, socklen_t) override {}
  void Cancel(uring::Token token, uring::Token target) override {
    submissions.push_back({Submission::Kind::kCancel, token, "", -1, false, target});
  }
  void SpliceFileToPipe(uring::Token, const File&, int64_t, const uring::PipeFds&,
                        size_t) override {}
  void ReadFile(uring::Token, const File&, int64_t, const iovec*, int) override {}
  void WriteFile(uring::Token, const File&, int64_t, const iovec*, int) override {}
  void SyncFile(uring::Token, const File&) override {}
  IoResult SendFileNow(int, const File&, int64_t, size_t, bool) override {
    return IoResult::Error(EAGAIN);
  }
  IoResult SplicePipeToSocketNow(const uring::PipeFds&, int, size_t, bool) override {
    return IoResult::Error(EAGAIN);
  }
  absl::StatusOr<uring::PipeFds> OpenPipe(size_t) override {
    return absl::ResourceExhaustedError("no pipes here");
  }
  void ClosePipe(const uring::PipeFds&) override {}
  void Shutdown(int, bool) override {}
  void Close(int) override {}
  int64_t UnacknowledgedBytes(int) override { return 0; }
  void SetResetOnClose(int) override {}
  IoResult SetSocketOption(int, int, int, const void*, socklen_t) override {
    return IoResult::Bytes(0);
  }
  IoResult PeerName(int, sockaddr_storage*, socklen_t*) override {
    return IoResult::Error(ENOTCONN);
  }
  absl::Status ProvideBuffers(char*, uint32_t, uint32_t) override { return absl::OkStatus(); }
  void ReturnBuffer(uint32_t) override {}
  absl::Status RegisterBuffers(absl::Span<const iovec>) override { return absl::OkStatus(); }
  size_t SubmitAndReap(absl::Span<uring::Completion>, int64_t) override { return 0; }
  void Wake() override {}
  bool recv_is_multishot() const override { return true; }
  bool send_zero_copy_available() const override { return zero_copy; }
  bool zero_copy_is_reported() const override { return zero_copy_reported; }

 private:
  static std::string Gathered(const msghdr& message) {
    std::string bytes;
    for (size_t i = 0; i < message.msg_iovlen; ++i) {
      bytes.append(static_cast<const char*>(message.msg_iov[i].iov_base),
                   message.msg_iov[i].iov_len);
    }
    return bytes;
  }
};

}  // namespace gyre

#endif  // GYRE_TESTS_UNIT_NETWORK_FAKE_RING_H_
