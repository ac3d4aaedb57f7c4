#include "hostccl/convener.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/shared_memory.h"
#include "base/thread.h"
#include "hostccl/failures.h"
#include "hostccl/meeting_talk.h"

namespace hostccl {
namespace {

using pycomms::Deadline;
using pycomms::Fd;

constexpr int64_t kNobodyCame = 600 * pycomms::kSecond;  // an id that nobody uses any more: its thread ends
constexpr int64_t kLateMembers = 10 * pycomms::kSecond;  // the same, where it is known who is late
constexpr int64_t kLookAfter = 100 * pycomms::kMillisecond;

Failure blame(FailureKind kind, int rank, const std::string& what) {
  Failure failure = make_failure(kind, -1, "rank " + std::to_string(rank) + " " + what);
  add_rank(failure, rank);
  return failure;
}

// Who goes over what he has not read resets the connection: his last word is behind that error.
ssize_t hear_last_word(int from, void* into, size_t bytes) {
  const ssize_t got = recv(from, into, bytes, 0);
  return got < 0 && errno == ECONNRESET ? recv(from, into, bytes, 0) : got;
}

}  // namespace

Convener::Convener(const Bytes16& secret, net::Descriptor local, std::unique_ptr<RemoteDoor> remote)
    : secret_(secret), local_(std::move(local)), remote_(std::move(remote)), deadline_(Deadline::after(kNobodyCame)) {}

void Convener::expect(const std::vector<Whereabouts>& members, Deadline deadline) {
  for (const Whereabouts& member : members) expected_.emplace_back(member);
  nranks_ = static_cast<int>(members.size());
  deadline_ = deadline;
}

void Convener::expect_only(std::vector<int> ranks, int nranks, Deadline deadline) {
  only_ = std::move(ranks);
  nranks_ = nranks;
  deadline_ = deadline;
}

pycomms::Status Convener::start(std::unique_ptr<Convener> convener) {
  auto thread = pycomms::start_thread("pycomms-boot", [convener = std::move(convener)] { convener->run(); });
  if (!thread.is_ok()) return thread.status();
  thread.value().detach();  // it owns all that it uses, and its deadline ends it
  return {};
}

void Convener::run() {
  while (!over_) {
    if (deadline_.passed()) {
      if (handed_out_ || refusal_ || nranks_ == 0) return;
      refuse_all(missing_ranks());
    }
    wait_for_something();
  }
}

void Convener::wait_for_something() {
  std::vector<pollfd> fds{{local_.get(), POLLIN, 0}, {remote_ ? remote_->fd() : -1, POLLIN, 0}};
  const size_t doors = fds.size();
  for (const Guest& guest : guests_) fds.push_back({guest.fd(), POLLIN, 0});
  const size_t lifelines = fds.size();
  const bool looks_after = !expected_.empty() && !handed_out_;
  if (looks_after) {
    look_after_expected();
    if (over_) return;
    for (const Lifeline& one : expected_) fds.push_back({one.fd(), POLLIN, 0});
  }
  const int64_t patience = looks_after ? std::min(deadline_.left(), kLookAfter) : deadline_.left();
  if (poll(fds.data(), fds.size(), pycomms::poll_ms(patience)) <= 0) return;
  // Backwards: a guest that is sent away moves those behind it.
  for (size_t i = lifelines; i > doors && !over_; --i) {
    if (fds[i - 1].revents != 0) listen_to(i - 1 - doors);
  }
  if (!over_ && (fds[0].revents != 0 || fds[1].revents != 0)) let_in();
}

bool Convener::is_awaited(int rank) const {
  return only_.empty() || std::find(only_.begin(), only_.end(), rank) != only_.end();
}

bool Convener::has_come(int rank) const {
  return std::any_of(guests_.begin(), guests_.end(), [rank](const Guest& g) { return g.rank() == rank; });
}

void Convener::look_after_expected() {
  for (int rank = 0; rank < nranks_ && !over_; ++rank) {
    if (has_come(rank) || is_settled_with(rank) || !expected_[static_cast<size_t>(rank)].has_ended()) continue;
    if (!refusal_) refuse_all(blame(FailureKind::kPeerDead, rank, "ended before it came"));
    settle_with(rank);
  }
}

void Convener::let_in() {
  if (Fd socket(accept4(local_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); socket) {
    guests_.emplace_back().connection = net::Descriptor(std::move(socket));
  } else if (errno == EMFILE || errno == ENFILE) {
    // Whoever knocks would wait until his deadline, and nobody would know why.
    refuse_all(make_failure(FailureKind::kSystem, -1, pycomms::Status::system("letting the members in").message()));
    over_ = true;
    return;
  }
  if (remote_ == nullptr) return;
  if (auto socket = remote_->take(); socket.is_ok()) {
    Guest& guest = guests_.emplace_back();
    guest.connection = socket.take();
    guest.is_remote = true;
  }
}

void Convener::listen_to(size_t index) {
  Guest& guest = guests_[index];
  if (guest.owes_address) return hear_address(index);
  if (guest.has_said_hello()) return hear_farewell(index);
  auto* const into = reinterpret_cast<std::byte*>(&guest.request);
  const ssize_t got = recv(guest.fd(), into + guest.heard, sizeof(guest.request) - guest.heard, 0);
  if (got > 0) guest.heard += static_cast<size_t>(got);
  if (got > 0 && guest.is_remote && !guest.has_said_hello()) return;  // the rest is on its way
  const JoinRequest& request = guest.request;
  const bool known = guest.has_said_hello() && net::equal_in_constant_time(request.secret, secret_) &&
                     request.nranks > 0 && request.rank >= 0 && request.rank < request.nranks &&
                     is_awaited(request.rank);
  if (!known) return send_away(index);  // a stranger
  welcome(guest);
}

void Convener::send_away(size_t index) { guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(index)); }

void Convener::hear_address(size_t index) {
  Guest& guest = guests_[index];
  Farewell instead{};
  const ssize_t got = hear_last_word(guest.fd(), &instead, sizeof(instead));  // it is on this host: one whole message
  if (refusal_) return send_away(index);
  if (got != sizeof(Whereabouts)) return lose(guest, got == sizeof(instead) ? instead.why : Failure{});
  std::memcpy(&guest.request.whereabouts, &instead, sizeof(Whereabouts));
  guest.owes_address = false;
  if (std::none_of(guests_.begin(), guests_.end(), [](const Guest& g) { return g.owes_address; })) send_roster();
}

// After its request a rank says one thing, and goes.
void Convener::hear_farewell(size_t index) {
  Guest& guest = guests_[index];
  auto* const into = reinterpret_cast<std::byte*>(&guest.farewell);
  // Read before anything else: a connection that is closed over what it has not read loses what it has sent.
  const ssize_t got = hear_last_word(guest.fd(), into + guest.heard_last, sizeof(guest.farewell) - guest.heard_last);
  if (refusal_) return send_away(index);
  if (guest.settled) {
    send_away(index);
  } else {
    if (got <= 0) return lose(guest, {});
    guest.heard_last += static_cast<size_t>(got);
    if (guest.heard_last < sizeof(guest.farewell)) return;  // the rest is on its way
    if (guest.farewell.why.kind != FailureKind::kNone) return lose(guest, guest.farewell.why);
    guest.settled = true;
  }
  over_ = std::all_of(guests_.begin(), guests_.end(), [](const Guest& g) { return g.settled || g.rank() < 0; });
}

void Convener::lose(const Guest& guest, Failure why) {
  if (why.kind != FailureKind::kNone) make_harmless(why, nranks_);
  if (why.nranks > 0) return refuse_all(why);  // others are to blame
  const std::string text = why.text;
  refuse_all(blame(FailureKind::kPeerDead, guest.rank(),
                   "left while the communicator was being made" + (text.empty() ? "" : " (" + text + ")")));
}

void Convener::welcome(Guest& guest) {
  const JoinRequest& request = guest.request;
  if (refusal_) return refuse(guest);
  if (!first_) {
    first_ = request;
    if (nranks_ == 0) deadline_ = Deadline::after(request.timeout_ns);
    if (nranks_ == 0) nranks_ = request.nranks;
  }
  deadline_ = Deadline::at(std::min(deadline_.ns(), Deadline::after(request.timeout_ns).ns()));
  if (request.nranks != nranks_) {
    return refuse_all(
        blame(FailureKind::kMismatch, request.rank,
              "was started with " + std::to_string(request.nranks) + " ranks, others with " + std::to_string(nranks_)));
  }
  if (request.agenda != first_->agenda) {
    return refuse_all(blame(FailureKind::kMismatch, request.rank,
                            "came for something else than rank " + std::to_string(first_->rank) +
                                ": do all give the same members in the same order?"));
  }
  if (request.segment_bytes != first_->segment_bytes) {
    return refuse_all(blame(FailureKind::kMismatch, request.rank,
                            "has another layout of shared memory than rank " + std::to_string(first_->rank) +
                                ": do all ranks run the same build?"));
  }
  if (request.by_hosts != first_->by_hosts) {
    return refuse_all(blame(FailureKind::kMismatch, request.rank,
                            "has another PYCOMMS_REDUCE_BY_HOSTS than rank " + std::to_string(first_->rank)));
  }
  const auto twins =
      std::count_if(guests_.begin(), guests_.end(), [&](const Guest& g) { return g.rank() == request.rank; });
  if (twins > 1) return refuse_all(blame(FailureKind::kMismatch, request.rank, "came twice"));
  const auto here = std::count_if(guests_.begin(), guests_.end(), [](const Guest& g) { return g.rank() >= 0; });
  if (here == awaited()) hand_out();
}

void Convener::hand_out() {
  auto segment = pycomms::create_shared_memory("pycomms", first_->segment_bytes);
  if (!segment.is_ok()) return refuse_all(make_failure(FailureKind::kSystem, -1, segment.status().message()));
  handed_out_ = true;
  JoinReply reply{};
  reply.ok = 1;
  reply.has_roster = std::any_of(guests_.begin(), guests_.end(), [](const Guest& g) { return g.is_remote; });
  bool wait = false;
  for (Guest& guest : guests_) {
    if (guest.rank() < 0) continue;
    guest.owes_address = reply.has_roster != 0 && !guest.is_remote;
    wait |= guest.owes_address;
    // A rank that has gone meanwhile needs no reply: its silence is noticed.
    static_cast<void>(tell(guest.fd(), reply, guest.is_remote ? -1 : segment.value().get()));
  }
  if (reply.has_roster != 0 && !wait) send_roster();
}

void Convener::send_roster() {
  std::vector<Whereabouts> roster(static_cast<size_t>(nranks_));
  for (const Guest& guest : guests_) {
    if (guest.rank() >= 0) roster[static_cast<size_t>(guest.rank())] = guest.request.whereabouts;
  }
  const JoinReply follows{.ok = 1, .has_roster = 1, .failure = {}};
  for (const Guest& guest : guests_) {
    if (guest.rank() < 0) continue;
    static_cast<void>(tell(guest.fd(), follows, -1) && tell(guest.fd(), std::as_bytes(std::span(roster))));
  }
}

void Convener::refuse_all(const Failure& failure) {
  refusal_ = failure;
  const int64_t stays = Deadline::after(expected_.empty() ? kNobodyCame : kLateMembers).ns();
  deadline_ = Deadline::at(expected_.empty() ? stays : std::max(stays, deadline_.ns()));
  for (const Guest& guest : guests_) {
    if (guest.rank() >= 0) refuse(guest);
  }
}

void Convener::refuse(const Guest& guest) {
  static_cast<void>(tell(guest.fd(), JoinReply{0, 0, *refusal_}, -1));
  settle_with(guest.rank());
}

bool Convener::is_settled_with(int rank) const {
  return std::find(refused_.begin(), refused_.end(), rank) != refused_.end();
}

void Convener::settle_with(int rank) {
  if (!is_settled_with(rank)) refused_.push_back(rank);
  over_ = static_cast<int>(refused_.size()) >= awaited();  // nobody is left to come
}

Failure Convener::missing_ranks() const {
  Failure failure = make_failure(FailureKind::kTimeout, -1, "");
  std::string text;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (has_come(rank) || !is_awaited(rank)) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
    add_rank(failure, rank);
  }
  set_text(failure, "these ranks did not come in time: " + text);
  return failure;
}

}  // namespace hostccl
