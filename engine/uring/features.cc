#include "engine/uring/features.h"

#include <liburing.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/unique_fd.h"
#include "engine/uring/kernel_abi.h"
#include "engine/uring/setup_error.h"

namespace gyre::uring {
namespace {

constexpr unsigned kProbeEntries = 8;
constexpr uint16_t kProbeBufferGroup = 7;

struct FeatureRow {
  Feature feature;
  absl::string_view name;
};
constexpr FeatureRow kFeatures[kFeatureCount] = {
    {Feature::kSingleIssuer, "single_issuer"},
    {Feature::kDeferTaskrun, "defer_taskrun"},
    {Feature::kMultishotRecv, "multishot_recv"},
    {Feature::kSendZeroCopy, "send_zc"},
    {Feature::kSendZeroCopyReport, "send_zc_report"},
    {Feature::kRegisteredBuffers, "register_buffers"},
    {Feature::kMsgRingWake, "msg_ring_wake"},
    {Feature::kMinWait, "min_wait"},
    {Feature::kCachestat, "cachestat"},
};

// Two ends of one TCP connection over loopback. TCP, because zero copy and
// multishot behave differently, or are refused, on Unix sockets.
struct LoopbackPair {
  UniqueFd listener;
  UniqueFd client;
  UniqueFd server;

  bool Listen() {
    listener.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return listener.get() >= 0 &&
           bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
           listen(listener.get(), 8) == 0;
  }
  bool Connect() {
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return false;
    }
    client.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return client.get() >= 0 &&
           connect(client.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
  }
  bool Accept() {
    server.Reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return server.get() >= 0;
  }
  bool Open() { return Listen() && Connect() && Accept(); }
};

struct Cqe {
  int32_t res = 0;
  uint32_t flags = 0;
};

// A ring for one question.
class ProbeRing {
 public:
  explicit ProbeRing(unsigned setup_flags) {
    io_uring_params params = {};
    params.flags = setup_flags;
    error_ = -io_uring_queue_init_params(kProbeEntries, &ring_, &params);
    features_ = params.features;
  }
  ProbeRing(const ProbeRing&) = delete;
  ProbeRing& operator=(const ProbeRing&) = delete;
  ~ProbeRing() {
    if (error_ == 0) io_uring_queue_exit(&ring_);
  }

  int error() const { return error_; }
  unsigned features() const { return features_; }
  io_uring* get() { return &ring_; }

  io_uring_sqe* Sqe() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    std::memset(sqe, 0, sizeof(*sqe));
    return sqe;
  }
  // Submits and waits for one completion, at most a second.
  std::optional<Cqe> SubmitAndTake() {
    for (int attempt = 0; attempt < 10; ++attempt) {
      __kernel_timespec timeout = {0, 100'000'000};
      io_uring_cqe* cqe = nullptr;
      io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &timeout, nullptr);
      if (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        const Cqe taken = {cqe->res, cqe->flags};
        io_uring_cqe_seen(&ring_, cqe);
        return taken;
      }
    }
    return std::nullopt;
  }

 private:
  io_uring ring_ = {};
  int error_ = 0;
  unsigned features_ = 0;
};

// A page that holds a provided-buffer ring of two entries and the buffers.
class ProbeBuffers {
 public:
  ProbeBuffers() {
    page_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ProbeBuffers(const ProbeBuffers&) = delete;
  ProbeBuffers& operator=(const ProbeBuffers&) = delete;
  ~ProbeBuffers() {
    if (page_ != MAP_FAILED) munmap(page_, kBytes);
  }

  // A positive errno, or 0.
  int Register(io_uring* ring) {
    if (page_ == MAP_FAILED) return ENOMEM;
    io_uring_buf_reg registration = {};
    registration.ring_addr = reinterpret_cast<uint64_t>(page_);
    registration.ring_entries = kCount;
    registration.bgid = kProbeBufferGroup;
    const int ret = io_uring_register_buf_ring(ring, &registration, 0);
    if (ret != 0) return -ret;
    auto* buffers = static_cast<io_uring_buf_ring*>(page_);
    io_uring_buf_ring_init(buffers);
    for (unsigned i = 0; i < kCount; ++i) {
      io_uring_buf_ring_add(buffers, static_cast<char*>(page_) + 1024 + i * 64, 64,
                            static_cast<uint16_t>(i), io_uring_buf_ring_mask(kCount),
                            static_cast<int>(i));
    }
    io_uring_buf_ring_advance(buffers, kCount);
    return 0;
  }

 private:
  static constexpr size_t kBytes = 4096;
  static constexpr unsigned kCount = 2;
  void* page_;
};

bool AcceptsMultishot(unsigned setup_flags) {
  LoopbackPair pair;
  ProbeRing ring(setup_flags);
  if (ring.error() != 0 || !pair.Listen() || !pair.Connect()) return false;
  io_uring_prep_multishot_accept(ring.Sqe(), pair.listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
  const std::optional<Cqe> cqe = ring.SubmitAndTake();
  if (!cqe.has_value() || cqe->res < 0) return false;
  pair.server.Reset(cqe->res);
  return (cqe->flags & IORING_CQE_F_MORE) != 0;
}

bool ReceivesProvided(unsigned setup_flags, bool multishot) {
  LoopbackPair pair;
  ProbeRing ring(setup_flags);
  ProbeBuffers buffers;
  if (ring.error() != 0 || !pair.Open() || buffers.Register(ring.get()) != 0) return false;
  io_uring_sqe* sqe = ring.Sqe();
  io_uring_prep_recv(sqe, pair.server.get(), nullptr, multishot ? 0 : 64, 0);
  if (multishot) sqe->ioprio |= IORING_RECV_MULTISHOT;
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = kProbeBufferGroup;
  if (send(pair.client.get(), "x", 1, MSG_NOSIGNAL) != 1) return false;
  const std::optional<Cqe> cqe = ring.SubmitAndTake();
  return cqe.has_value() && cqe->res == 1 && (cqe->flags & IORING_CQE_F_BUFFER) != 0 &&
         (!multishot || (cqe->flags & IORING_CQE_F_MORE) != 0);
}

bool SendsZeroCopy(unsigned setup_flags, uint16_t zero_copy_flags) {
  LoopbackPair pair;
  ProbeRing ring(setup_flags);
  if (ring.error() != 0 || !pair.Open()) return false;
  static const char byte = 'x';
  io_uring_prep_send_zc(ring.Sqe(), pair.client.get(), &byte, 1, MSG_NOSIGNAL, zero_copy_flags);
  const std::optional<Cqe> sent = ring.SubmitAndTake();
  if (!sent.has_value() || sent->res != 1 || (sent->flags & IORING_CQE_F_MORE) == 0) return false;
  const std::optional<Cqe> freed = ring.SubmitAndTake();
  return freed.has_value() && (freed->flags & IORING_CQE_F_NOTIF) != 0;
}

bool HasOpcode(unsigned setup_flags, int opcode) {
  ProbeRing ring(setup_flags);
  if (ring.error() != 0) return false;
  io_uring_probe* probe = io_uring_get_probe_ring(ring.get());
  if (probe == nullptr) return false;
  const bool has = io_uring_opcode_supported(probe, opcode) != 0;
  io_uring_free_probe(probe);
  return has;
}

bool RegistersBuffers(unsigned setup_flags) {
  ProbeRing ring(setup_flags);
  if (ring.error() != 0) return false;
  alignas(4096) static char page[4096];
  const iovec buffer = {page, sizeof(page)};
  // A refusal by the locked-memory limit is the limit's matter, not absence.
  const int ret = io_uring_register_buffers(ring.get(), &buffer, 1);
  return ret == 0 || ret == -ENOMEM;
}

bool WakesByMessage(unsigned setup_flags) {
  ProbeRing ring(setup_flags);
  if (ring.error() != 0) return false;
  io_uring_sqe message = {};
  message.opcode = IORING_OP_MSG_RING;
  message.fd = ring.get()->ring_fd;
  message.len = 5;
  if (io_uring_register(static_cast<unsigned>(-1), abi::kRegisterSendMsgRing, &message, 1) != 0) {
    return false;
  }
  const std::optional<Cqe> cqe = ring.SubmitAndTake();
  return cqe.has_value() && cqe->res == 5;
}

bool HasMinWait(unsigned setup_flags) {
  ProbeRing ring(setup_flags);
  return ring.error() == 0 && (ring.features() & abi::kFeatMinTimeout) != 0;
}

bool HasCachestat() {
  UniqueFd file(memfd_create("gyre-probe", MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), 4096) != 0) return false;
  constexpr long kCachestatSyscall = 451;
  const uint64_t range[2] = {0, 4096};
  uint64_t stat[5] = {};
  return syscall(kCachestatSyscall, file.get(), range, stat, 0) == 0;
}

// The opcodes the engine cannot do without, and cannot do quickly without.
bool HasRequiredOpcodes(io_uring* ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (probe == nullptr) return false;
  bool all = true;
  for (const int opcode :
       {IORING_OP_ACCEPT, IORING_OP_RECV, IORING_OP_SEND, IORING_OP_SENDMSG, IORING_OP_POLL_ADD,
        IORING_OP_ASYNC_CANCEL, IORING_OP_CONNECT, IORING_OP_SPLICE, IORING_OP_READ,
        IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_FSYNC}) {
    all = all && io_uring_opcode_supported(probe, opcode) != 0;
  }
  io_uring_free_probe(probe);
  return all;
}

absl::string_view Rung(FeatureSet available) {
  if (available.Has(Feature::kDeferTaskrun)) return "SINGLE_ISSUER|DEFER_TASKRUN|TASKRUN_FLAG";
  if (available.Has(Feature::kSingleIssuer)) return "SINGLE_ISSUER|COOP_TASKRUN|TASKRUN_FLAG";
  return "COOP_TASKRUN|TASKRUN_FLAG";
}

template <typename Predicate>
std::string Names(Predicate predicate) {
  std::vector<absl::string_view> names;
  for (const FeatureRow& row : kFeatures) {
    if (predicate(row.feature)) names.push_back(row.name);
  }
  return absl::StrJoin(names, ",");
}

// The highest rung of setup flags that the kernel takes. An errno when it
// takes none, or refuses for another reason than not knowing a flag.
int ClimbFlagLadder(FeatureSet hidden, FeatureSet* available) {
  const bool may_single = !hidden.Has(Feature::kSingleIssuer);
  const bool may_defer = may_single && !hidden.Has(Feature::kDeferTaskrun);
  int error = EINVAL;
  for (const bool defer : {true, false}) {
    for (const bool single : {true, false}) {
      if ((defer && (!may_defer || !single)) || (single && !may_single)) continue;
      FeatureSet rung;
      if (single) rung.Add(Feature::kSingleIssuer);
      if (defer) rung.Add(Feature::kDeferTaskrun);
      error = ProbeRing(SetupFlags(rung)).error();
      if (error == 0) {
        *available = rung;
        return 0;
      }
      if (error != EINVAL) return error;
    }
  }
  return error;
}

}  // namespace

uint32_t SetupFlags(FeatureSet available) {
  uint32_t flags = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_TASKRUN_FLAG;
  if (available.Has(Feature::kSingleIssuer)) flags |= IORING_SETUP_SINGLE_ISSUER;
  flags |= available.Has(Feature::kDeferTaskrun) ? IORING_SETUP_DEFER_TASKRUN
                                                 : IORING_SETUP_COOP_TASKRUN;
  return flags;
}

absl::string_view FeatureName(Feature feature) { return kFeatures[static_cast<int>(feature)].name; }

std::string Features::Describe() const {
  std::string line =
      absl::StrCat("io_uring on kernel ", kernel_release, ": ", Rung(available), "; has ",
                   Names([this](Feature feature) { return available.Has(feature); }));
  const std::string missing =
      Names([this](Feature feature) { return !available.Has(feature) && !hidden.Has(feature); });
  const std::string hidden_names = Names([this](Feature feature) { return hidden.Has(feature); });
  if (available.empty()) absl::StrAppend(&line, "nothing optional");
  if (!missing.empty()) absl::StrAppend(&line, "; lacks ", missing);
  if (!hidden_names.empty()) absl::StrAppend(&line, "; hidden ", hidden_names);
  return line;
}

absl::StatusOr<FeatureSet> ParseDisabled(absl::string_view list) {
  FeatureSet disabled;
  for (const absl::string_view word : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    const absl::string_view name = absl::StripAsciiWhitespace(word);
    bool known = name == "all";
    if (known) disabled = FeatureSet::All();
    for (const FeatureRow& row : kFeatures) {
      if (row.name != name) continue;
      disabled.Add(row.feature);
      known = true;
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("unknown io_uring feature \"", name,
                                                     "\"; valid are all,",
                                                     Names([](Feature) { return true; })));
    }
  }
  return disabled;
}

namespace {

absl::StatusOr<Features> Probe(FeatureSet hidden) {
  const SetupEnvironment environment = ReadSetupEnvironment();
  Features features;
  features.hidden = hidden;
  features.kernel_release = environment.kernel_release;
  FeatureSet& available = features.available;
  if (const int error = ClimbFlagLadder(hidden, &available); error != 0) {
    return SetupError(error, environment);
  }
  const unsigned flags = SetupFlags(available);
  {
    ProbeRing ring(flags);
    if (ring.error() != 0) return SetupError(ring.error(), environment);
    ProbeBuffers buffers;
    if (!HasRequiredOpcodes(ring.get())) return SetupError(EINVAL, environment);
    if (const int error = buffers.Register(ring.get()); error != 0) {
      return SetupError(error, environment);
    }
  }
  {
    LoopbackPair pair;
    if (!pair.Open()) {
      return absl::InternalError(
          absl::StrCat("io_uring preflight: no TCP connection over 127.0.0.1 (",
                       std::strerror(errno), "): the loopback interface must be up"));
    }
  }
  if (!AcceptsMultishot(flags) || !ReceivesProvided(flags, /*multishot=*/false)) {
    return SetupError(EINVAL, environment);
  }
  const auto try_feature = [&](Feature feature, auto works) {
    if (!hidden.Has(feature) && works()) available.Add(feature);
  };
  try_feature(Feature::kMultishotRecv, [&] { return ReceivesProvided(flags, true); });
  try_feature(Feature::kSendZeroCopy, [&] { return SendsZeroCopy(flags, 0); });
  try_feature(Feature::kSendZeroCopyReport, [&] {
    return available.Has(Feature::kSendZeroCopy) && HasOpcode(flags, IORING_OP_SENDMSG_ZC) &&
           SendsZeroCopy(flags, abi::kSendZeroCopyReportUsage);
  });
  try_feature(Feature::kRegisteredBuffers, [&] { return RegistersBuffers(flags); });
  try_feature(Feature::kMsgRingWake, [&] { return WakesByMessage(flags); });
  try_feature(Feature::kMinWait, [&] { return HasMinWait(flags); });
  try_feature(Feature::kCachestat, [] { return HasCachestat(); });
  return features;
}

}  // namespace

absl::StatusOr<Features> ProbeFeatures(FeatureSet hidden) {
  // On a thread that then ends: the kernel takes a closed ring apart later, and tells the
  // thread that used it, whose receive with a timeout fails with EINTR.
  struct Turn {
    FeatureSet hidden;
    absl::StatusOr<Features> features;
  } turn = {hidden, absl::UnknownError("not probed")};
  const auto run = [](void* argument) -> void* {
    auto* const probed = static_cast<Turn*>(argument);
    probed->features = Probe(probed->hidden);
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run, &turn) != 0) return Probe(hidden);
  pthread_join(thread, nullptr);
  return std::move(turn.features);
}

}  // namespace gyre::uring
