#include "hostccl/bootstrap.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/shared_memory.h"
#include "base/thread.h"
#include "hostccl/failures.h"
#include "hostccl/segment.h"

namespace hostccl {
namespace {

using pycomms::Deadline;
using pycomms::Fd;
using pycomms::Status;

constexpr char kMagic[8] = {'h', 'o', 's', 't', 'c', 'c', 'l', '1'};
constexpr size_t kSecretBytes = 16;
constexpr int64_t kNobodyCame = 600 * pycomms::kSecond;  // an id that nobody uses any more: its thread ends
constexpr int64_t kLookAround = 50 * pycomms::kMillisecond;

// What a unique id holds.
struct Address {
  char magic[sizeof(kMagic)];
  unsigned char secret[kSecretBytes];
  char socket[40];
};
static_assert(sizeof(Address) <= nccl_abi::kUniqueIdBytes);

struct Hello {
  unsigned char secret[kSecretBytes];
  int32_t rank;
  int32_t nranks;
  uint64_t segment_bytes;
  int64_t timeout_ns;
};

struct Reply {
  int32_t ok;  // then a descriptor comes with it
  Failure failure;
};

int poll_ms(int64_t ns) { return static_cast<int>(std::clamp<int64_t>(ns / pycomms::kMillisecond, 1, 1000)); }

sockaddr_un socket_address(const Address& address, socklen_t& length) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;  // sun_path[0] == 0: abstract, no file
  const size_t size = strnlen(address.socket, sizeof(address.socket));
  std::memcpy(name.sun_path + 1, address.socket, size);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return name;
}

void send_reply(const Fd& to, const Reply& reply, int descriptor) {
  iovec data{const_cast<Reply*>(&reply), sizeof(reply)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  // A rank that has gone meanwhile needs no reply.
  static_cast<void>(sendmsg(to.get(), &message, MSG_NOSIGNAL));
}

// The creator's side: collects the ranks of one communicator. When that has come to nothing it stays, so that a rank that
// comes later hears why from somebody: to a closed door it would conclude that the creator is dead.
class Reception {
 public:
  Reception(Fd listener, const Address& address) : listener_(std::move(listener)), address_(address) {}

  void run() {
    while (!over_) {
      if (deadline_.passed()) {
        if (handed_out_ || refusal_ || nranks_ == 0) return;
        refuse_all(missing_ranks());
      }
      wait_for_something();
    }
  }

 private:
  struct Guest {
    Fd socket;
    int rank = -1;         // until it has said hello
    bool settled = false;  // sees all others in the segment
  };

  void wait_for_something() {
    std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) fds.push_back({guest.socket.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), poll_ms(deadline_.left())) <= 0) return;
    // Backwards: a guest that is sent away moves those behind it.
    for (size_t i = fds.size() - 1; i >= 1 && !over_; --i) {
      if (fds[i].revents != 0) listen_to(i - 1);
    }
    if (!over_ && fds[0].revents != 0) {
      Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) guests_.push_back({std::move(socket)});
    }
  }

  void listen_to(size_t index) {
    Guest& guest = guests_[index];
    Hello hello;
    const ssize_t got = recv(guest.socket.get(), &hello, sizeof(hello), 0);
    if (guest.rank >= 0) return hear_again(index, got > 0);
    const bool known = got == sizeof(hello) && std::memcmp(hello.secret, address_.secret, kSecretBytes) == 0;
    if (!known) {  // a stranger
      guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(index));
      return;
    }
    welcome(guest, hello);
  }

  // After hello a rank says one thing, that it is settled; otherwise it has gone.
  void hear_again(size_t index, bool spoke) {
    Guest& guest = guests_[index];
    if (refusal_) {
      guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(index));
      return;
    }
    if (spoke) {
      guest.settled = true;
    } else if (!guest.settled) {
      return refuse_all(blame(FailureKind::kPeerDead, guest.rank, "left while the communicator was being made"));
    } else {
      guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(index));
    }
    over_ = std::all_of(guests_.begin(), guests_.end(), [](const Guest& g) { return g.settled || g.rank < 0; });
  }

  void welcome(Guest& guest, const Hello& hello) {
    guest.rank = hello.rank;
    if (refusal_) return refuse(guest);
    if (nranks_ == 0) {  // the first
      nranks_ = hello.nranks;
      segment_bytes_ = hello.segment_bytes;
      deadline_ = Deadline::after(hello.timeout_ns);
    } else if (const Deadline theirs = Deadline::after(hello.timeout_ns); theirs.ns() < deadline_.ns()) {
      deadline_ = theirs;
    }
    if (hello.nranks != nranks_) {
      return refuse_all(
          blame(FailureKind::kMismatch, hello.rank,
                "was started with " + std::to_string(hello.nranks) + " ranks, others with " + std::to_string(nranks_)));
    }
    const auto twins =
        std::count_if(guests_.begin(), guests_.end(), [&](const Guest& g) { return g.rank == hello.rank; });
    if (twins > 1) return refuse_all(blame(FailureKind::kMismatch, hello.rank, "came twice"));
    const auto here = std::count_if(guests_.begin(), guests_.end(), [](const Guest& g) { return g.rank >= 0; });
    if (here == nranks_) hand_out();
  }

  void hand_out() {
    auto segment = pycomms::create_shared_memory("pycomms", segment_bytes_);
    if (!segment.is_ok()) {
      return refuse_all(make_failure(FailureKind::kSystem, -1, segment.status().message()));
    }
    handed_out_ = true;
    Reply reply{};
    reply.ok = 1;
    for (const Guest& guest : guests_) {
      if (guest.rank >= 0) send_reply(guest.socket, reply, segment.value().get());
    }
  }

  void refuse_all(const Failure& failure) {
    refusal_ = failure;
    deadline_ = Deadline::after(kNobodyCame);
    for (const Guest& guest : guests_) {
      if (guest.rank >= 0) refuse(guest);
    }
  }

  void refuse(const Guest& guest) {
    send_reply(guest.socket, Reply{0, *refusal_}, -1);
    if (std::find(refused_.begin(), refused_.end(), guest.rank) == refused_.end()) refused_.push_back(guest.rank);
    over_ = static_cast<int>(refused_.size()) >= nranks_;  // nobody is left to come
  }

  static Failure blame(FailureKind kind, int rank, const std::string& what) {
    Failure failure = make_failure(kind, -1, "rank " + std::to_string(rank) + " " + what);
    add_rank(failure, rank);
    return failure;
  }

  Failure missing_ranks() const {
    Failure failure = make_failure(FailureKind::kTimeout, -1, "");
    std::string text;
    for (int rank = 0; rank < nranks_; ++rank) {
      const bool here = std::any_of(guests_.begin(), guests_.end(), [&](const Guest& g) { return g.rank == rank; });
      if (here) continue;
      text += (text.empty() ? "" : ", ") + std::to_string(rank);
      add_rank(failure, rank);
    }
    set_text(failure, "these ranks did not come in time: " + text);
    return failure;
  }

  Fd listener_;
  Address address_;
  std::vector<Guest> guests_;
  int nranks_ = 0;
  size_t segment_bytes_ = 0;
  Deadline deadline_ = Deadline::after(kNobodyCame);
  bool handed_out_ = false;  // the segment: from here on the ranks watch the deadline themselves
  std::optional<Failure> refusal_;
  std::vector<int> refused_;  // the ranks that have been told
  bool over_ = false;
};

std::optional<Lobby> refuse(Failure& why, FailureKind kind, const std::string& text) {
  why = make_failure(kind, -1, text);
  return std::nullopt;
}

std::optional<Lobby> receive_segment(Fd socket, Failure& why) {
  Reply reply{};
  iovec data{&reply, sizeof(reply)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got != sizeof(reply)) {
    return refuse(why, FailureKind::kPeerDead,
                  "the process that made the unique id ended while the communicator was being made");
  }
  if (reply.ok == 0) {
    why = reply.failure;
    return std::nullopt;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return refuse(why, FailureKind::kSystem,
                  "the shared segment did not come with the reply (descriptor limit reached?)");
  }
  int descriptor;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return Lobby(Fd(descriptor), std::move(socket));
}

}  // namespace

pycomms::Result<nccl_abi::UniqueId> create_unique_id() {
  Address address{};
  std::memcpy(address.magic, kMagic, sizeof(kMagic));
  unsigned char name[12];
  if (getrandom(address.secret, sizeof(address.secret), 0) != sizeof(address.secret) ||
      getrandom(name, sizeof(name), 0) != sizeof(name)) {
    return Status::system("getrandom");
  }
  char* at = address.socket + std::snprintf(address.socket, sizeof(address.socket), "pycomms-");
  for (const unsigned char byte : name) at += std::snprintf(at, 3, "%02x", byte);

  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length;
  const sockaddr_un where = socket_address(address, length);
  if (!listener || bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0 ||
      listen(listener.get(), 4096) != 0) {
    return Status::system("listening for the ranks of a new communicator");
  }
  nccl_abi::UniqueId id{};
  std::memcpy(id.internal, &address, sizeof(address));

  auto thread = pycomms::start_thread(
      "pycomms-boot", [reception = Reception(std::move(listener), address)]() mutable { reception.run(); });
  if (!thread.is_ok()) return thread.status();
  thread.value().detach();  // it owns all that it uses, and its deadline ends it
  return id;
}

void Lobby::leave() {
  const char settled = 1;
  static_cast<void>(send(socket_.get(), &settled, sizeof(settled), MSG_NOSIGNAL));  // nobody there: nobody cares
  socket_.reset();
}

bool Lobby::all_well(Failure& why) const {
  Reply reply{};
  if (recv(socket_.get(), &reply, sizeof(reply), MSG_DONTWAIT) != sizeof(reply) || reply.ok != 0) return true;
  why = reply.failure;
  return false;
}

std::optional<Lobby> join(const nccl_abi::UniqueId& id, int rank, int nranks, size_t bytes, Deadline deadline,
                          const std::atomic<bool>& cancelled, Failure& why) {
  Address address;
  std::memcpy(&address, id.internal, sizeof(address));
  if (std::memcmp(address.magic, kMagic, sizeof(kMagic)) != 0) {
    return refuse(why, FailureKind::kUsage, "the unique id was not made by this library (or by another version of it)");
  }
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t length;
  const sockaddr_un where = socket_address(address, length);
  if (!socket) return refuse(why, FailureKind::kSystem, Status::system("opening a socket").message());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0) {
    return refuse(why, FailureKind::kPeerDead,
                  Status::system("the process that made the unique id is gone, or not on this host").message());
  }
  Hello hello{};
  std::memcpy(hello.secret, address.secret, kSecretBytes);
  hello.rank = rank;
  hello.nranks = nranks;
  hello.segment_bytes = bytes;
  hello.timeout_ns = deadline.left();
  if (send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    return refuse(why, FailureKind::kSystem, Status::system("joining the communicator").message());
  }
  constexpr int64_t kGrace = pycomms::kSecond;  // the reply that names the missing ranks comes just after the deadline
  while (!cancelled.load(std::memory_order_acquire)) {
    pollfd look{socket.get(), POLLIN, 0};
    if (poll(&look, 1, poll_ms(kLookAround)) > 0) return receive_segment(std::move(socket), why);
    if (pycomms::now_ns() > deadline.ns() + kGrace)
      return refuse(why, FailureKind::kTimeout, "no answer while joining");
  }
  return refuse(why, FailureKind::kAborted, "aborted while the communicator was being made");
}

}  // namespace hostccl
