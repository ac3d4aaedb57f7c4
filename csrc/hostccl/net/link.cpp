#include "hostccl/net/link.h"

#include <sched.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/fork.h"
#include "hostccl/net/socket.h"

namespace hostccl::net {
namespace {

using pycomms::Code;
using pycomms::Status;

// Calls of sinks that this thread is in.
thread_local int sink_depth = 0;

struct InSink {
  InSink() { ++sink_depth; }
  ~InSink() { --sink_depth; }
};

// With no lock held.
void tell_sent(const Outbox::Finished& finished) {
  for (size_t i = 0; i < finished.count; ++i) finished.calls[i].call(finished.calls[i].arg, true);
}

void tell_given_up(const std::vector<Completion>& all) {
  for (const Completion& each : all) each.call(each.arg, false);
}

std::string words(size_t bytes) { return std::to_string(bytes) + " bytes"; }

Status check(Lane lane, const Message& message, const Payload& payload, bool waits) {
  auto wrong = [](const std::string& what) { return Status(Code::kInvalidArgument, "a message " + what); };
  if (message.kind > kLastKind && message.kind != kHeartbeatKind) {
    return wrong("of kind " + std::to_string(message.kind) + ", expected at most " + std::to_string(kLastKind));
  }
  if (payload.head.size() > kHeadBytes) {
    return wrong("with a head of " + words(payload.head.size()) + ", expected at most " + words(kHeadBytes));
  }
  if (lane == Lane::kUrgent && payload.size() > kUrgentBytes) {
    return wrong("of " + words(payload.size()) + " in the urgent lane, expected at most " + words(kUrgentBytes));
  }
  if (!waits && payload.size() > Link::kCopyBytes) {
    return wrong("of " + words(payload.size()) + " without a completion, expected at most " + words(Link::kCopyBytes));
  }
  return Status::ok();
}

}  // namespace

Link::Link(int peer, Sink& sink)
    : peer_(peer), sink_(sink), fork_generation_(pycomms::fork_generation()), inbox_(peer, must_end_) {}

Link::~Link() {
  if (is_foreign() || has_ended()) return;
  tell_given_up(drop_connection());
}

bool Link::is_foreign() const { return fork_generation_ != pycomms::fork_generation(); }

std::string Link::name() const {
  std::lock_guard lock(mutex_);
  return "rank " + std::to_string(peer_) + (at_.is_none() ? "" : " at " + at_.to_text());
}

bool Link::attach(Descriptor socket, const Address& at, Watcher watcher) {
  while (!try_receiving()) sched_yield();
  const bool attached = take_socket(std::move(socket), at, watcher);
  stop_receiving();
  if (attached) flush();
  return attached;
}

bool Link::take_socket(Descriptor socket, const Address& at, Watcher watcher) {
  std::lock_guard lock(mutex_);
  if (has_ended()) return false;
  socket_ = std::move(socket);
  at_ = at;
  watcher_ = watcher;
  outbox_.set_burst(segment_bytes(socket_));
  watches_output_ = is_blocked_ = false;  // of a connection that this one replaces
  if (watcher_.epoll >= 0) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = watcher_.name;
    static_cast<void>(epoll_ctl(watcher_.epoll, EPOLL_CTL_ADD, socket_.get(), &event));
  }
  last_heard_ns_.store(pycomms::now_ns(), std::memory_order_relaxed);
  // Otherwise it was closed before it was connected, and that is still to be said.
  if (state_.load(std::memory_order_relaxed) == State::kConnecting)
    state_.store(State::kOpen, std::memory_order_release);
  return true;
}

Status Link::send(Lane lane, Message message, const Payload& payload, Completion done, Push push) {
  message.bytes = payload.size();
  PYCOMMS_RETURN_IF_ERROR(check(lane, message, payload, done.call != nullptr));
  if (is_foreign()) return {Code::kInvalidState, "this connection belongs to the process that we were forked from"};
  Outbox::Finished finished;
  bool more = false;
  {
    std::lock_guard lock(mutex_);
    const State state = state_.load(std::memory_order_relaxed);
    if (state == State::kEnded || state == State::kClosing) {
      return {Code::kInvalidState, "the connection with rank " + std::to_string(peer_) + " has ended"};
    }
    if (!outbox_.add(lane, message, payload, done)) {
      return {Code::kInvalidState, "rank " + std::to_string(peer_) + " takes no more: " +
                                       std::to_string(Outbox::kParcels) + " messages wait in this lane"};
    }
    // Behind others that have found the kernel full it waits for progress().
    if (push == Push::kNow && !is_blocked_ && state == State::kOpen && send_error_ == 0) {
      const Outbox::Outcome outcome = outbox_.flush(socket_, finished);
      if (outcome == Outbox::Outcome::kBroken) send_error_ = errno;
      is_blocked_ = outcome == Outbox::Outcome::kBlocked;
      more = outcome == Outbox::Outcome::kMore;
    }
    if (done.call == nullptr) outbox_.keep_newest(lane);
    const bool left = !outbox_.is_empty();
    has_output_.store(left, std::memory_order_release);
    has_unpushed_.store(left && push == Push::kLater, std::memory_order_release);
    if (left && !more && push == Push::kNow) watch_for_output(true);
  }
  tell_sent(finished);
  if (more) flush();
  return Status::ok();
}

Status Link::beat() {
  if (has_output()) return Status::ok();  // what waits will tell
  Message message;
  message.kind = kHeartbeatKind;
  return send(Lane::kUrgent, message, {});
}

bool Link::flush() {
  bool moved = false;
  for (bool more = true; more;) moved |= flush_once(more, true);
  return moved;
}

// One system call. more: the kernel may take what is left; comes_again: and the caller sees to it.
bool Link::flush_once(bool& more, bool comes_again) {
  Outbox::Finished finished;
  {
    std::lock_guard lock(mutex_);
    more = false;
    const State state = state_.load(std::memory_order_relaxed);
    if (send_error_ != 0 || (state != State::kOpen && state != State::kClosing) || !socket_) return false;
    const Outbox::Outcome outcome = outbox_.flush(socket_, finished);
    more = outcome == Outbox::Outcome::kMore;
    if (outcome == Outbox::Outcome::kBroken) send_error_ = errno;
    is_blocked_ = outcome == Outbox::Outcome::kBlocked;
    const bool left = !outbox_.is_empty();
    has_output_.store(left, std::memory_order_release);
    has_unpushed_.store(false, std::memory_order_release);
    watch_for_output(left && send_error_ == 0 && !(more && comes_again));
  }
  tell_sent(finished);
  return finished.bytes > 0;
}

void Link::keep_bodies() {
  const std::lock_guard lock(mutex_);
  outbox_.keep_all();
}

// Whoever sleeps on the epoll instance is woken when the kernel takes more.
void Link::watch_for_output(bool on) {
  if (watches_output_ == on || watcher_.epoll < 0 || !socket_) return;
  watches_output_ = on;
  epoll_event event{};
  event.events = on ? uint32_t{EPOLLIN} | EPOLLOUT : uint32_t{EPOLLIN};
  event.data.u64 = watcher_.name;
  static_cast<void>(epoll_ctl(watcher_.epoll, EPOLL_CTL_MOD, socket_.get(), &event));
}

bool Link::progress() {
  if (is_foreign()) return false;
  // Between two bursts comes what has come: if both sides only sent, each would fill the other's memory.
  bool more = false;
  bool moved = has_output() && flush_once(more, false);
  if (!try_receiving()) return moved;
  moved |= receive();
  stop_receiving();
  return moved;
}

bool Link::receive() {
  const State state = state_.load(std::memory_order_acquire);
  if ((state != State::kOpen && state != State::kClosing) || !socket_) return false;
  Inbox::Outcome outcome;
  {
    const InSink inside;
    outcome = inbox_.receive(socket_, sink_);
  }
  if (outcome == Inbox::Outcome::kMoved) {
    last_heard_ns_.store(pycomms::now_ns(), std::memory_order_relaxed);
    return true;
  }
  look_for_end(outcome, errno);
  return has_ended();
}

// An abort() that came meanwhile has left the end to us.
void Link::stop_receiving() {
  for (;;) {
    if (must_end_.load(std::memory_order_seq_cst) && !has_ended()) {
      std::unique_lock lock(mutex_);
      const LinkEnd end = asked_end_;
      lock.unlock();
      finish(end);
    }
    receiving_.store(false, std::memory_order_seq_cst);
    if (!must_end_.load(std::memory_order_seq_cst) || has_ended() || !try_receiving()) return;
  }
}

void Link::look_for_end(Inbox::Outcome outcome, int error) {
  int send_error;
  {
    std::lock_guard lock(mutex_);
    send_error = send_error_;
  }
  switch (outcome) {
    case Inbox::Outcome::kMoved:
      return;
    case Inbox::Outcome::kNothing:
      // All that came before the end has been read: now a failed send may end it.
      if (send_error != 0) finish(lost(std::strerror(send_error)));
      return;
    case Inbox::Outcome::kGoodbye:
      return finish({EndKind::kOrderly, name() + " has closed the connection: " + inbox_.reason()});
    case Inbox::Outcome::kClosed:
      return finish(lost("the other side has closed it without a word"));
    case Inbox::Outcome::kBroken:
      return finish(lost(std::strerror(send_error != 0 ? send_error : error)));
    case Inbox::Outcome::kMalformed:
      return finish({EndKind::kProtocol, name() + " sent " + inbox_.reason()});
  }
}

LinkEnd Link::lost(const std::string& how) const {
  // Whoever said goodbye is waiting for just this.
  if (state_.load(std::memory_order_acquire) == State::kClosing && !has_output()) {
    return {EndKind::kLocal, "the connection with " + name() + " was closed here"};
  }
  const char* amid = inbox_.is_amid_message() ? ", in the middle of a message" : "";
  return {EndKind::kLost, "the connection with " + name() + " was lost" + amid + ": " + how};
}

// By the one who may receive.
void Link::finish(const LinkEnd& end) {
  if (has_ended()) return;
  const InSink inside;
  tell_given_up(drop_connection());
  sink_.ended(peer_, end);
}

std::vector<Completion> Link::drop_connection() {
  std::lock_guard lock(mutex_);
  state_.store(State::kEnded, std::memory_order_release);
  has_output_.store(false, std::memory_order_release);
  socket_.reset();
  return outbox_.give_up();
}

void Link::start_close(const std::string& reason) {
  if (is_foreign()) return;
  {
    std::lock_guard lock(mutex_);
    const State state = state_.load(std::memory_order_relaxed);
    if (state == State::kEnded || state == State::kClosing) return;
    Message bye;
    bye.kind = kByeKind;
    const auto text = std::as_bytes(std::span(reason)).first(std::min(reason.size(), kReasonBytes));
    bye.bytes = text.size();
    // The last lane: it goes behind everything. A full lane belongs to a peer that takes nothing: the connection's end
    // must do.
    if (outbox_.add(Lane::kBulk, bye, {{}, text}, {})) outbox_.keep_newest(Lane::kBulk);
    has_output_.store(true, std::memory_order_release);
    state_.store(State::kClosing, std::memory_order_release);
  }
  flush();
}

void Link::abort(const LinkEnd& end) {
  if (is_foreign()) return;
  {
    std::lock_guard lock(mutex_);
    if (has_ended()) return;
    if (!must_end_.load(std::memory_order_relaxed)) asked_end_ = end;
    must_end_.store(true, std::memory_order_seq_cst);
  }
  if (try_receiving()) return stop_receiving();
  // The receiver ends it. Two threads that each wait for the other's sink would wait for ever.
  while (sink_depth == 0 && !has_ended()) sched_yield();
}

}  // namespace hostccl::net
