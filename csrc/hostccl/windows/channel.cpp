#include "hostccl/windows/channel.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::Status;

constexpr int64_t kTimeToConnect = 30 * pycomms::kSecond;
constexpr int64_t kSpin = 40 * pycomms::kMicrosecond;
constexpr int64_t kSlice = 2 * pycomms::kMillisecond;
constexpr size_t kPeek = 4 << 10;  // of what follows data that goes straight to its place

void sleep_on(int fd, short events, int64_t ns) {
  pollfd look{fd, events, 0};
  const timespec limit{0, static_cast<long>(std::clamp<int64_t>(ns, 0, kSlice))};
  // A descriptor of -1 is none, and this only waits.
  static_cast<void>(ppoll(&look, 1, &limit, nullptr));
}

}  // namespace

WindowChannel::WindowChannel(WindowChannelOptions options) : options_(std::move(options)) {}

WindowChannel::Turn::Turn(WindowChannel& channel, Deadline deadline) : channel_(channel) {
  while (!channel_.turn_.lock(Deadline::at(std::min(deadline.ns(), pycomms::now_ns() + kSlice)))) {
    status_ = channel_.look_around(deadline);
    if (!status_.is_ok()) return;
  }
}

WindowChannel::Turn::~Turn() {
  if (status_.is_ok()) channel_.release_turn();
}

// Who wants a lock forgone while somebody else has the turn leaves it to him.
void WindowChannel::release_turn() {
  do {
    forgo_what_is_due();
    turn_.unlock();
  } while (to_forgo_count_.load(std::memory_order_seq_cst) > 0 && turn_.try_lock());
}

void WindowChannel::forgo_lock(uint64_t number) {
  {
    const std::lock_guard lock(forgo_mutex_);
    to_forgo_.push_back(number);
    to_forgo_count_.store(to_forgo_.size(), std::memory_order_seq_cst);
  }
  if (turn_.try_lock()) release_turn();
}

void WindowChannel::forgo_what_is_due() {
  if (to_forgo_count_.load(std::memory_order_seq_cst) == 0) return;
  std::vector<uint64_t> numbers;
  {
    const std::lock_guard lock(forgo_mutex_);
    numbers.swap(to_forgo_);
    to_forgo_count_.store(0, std::memory_order_seq_cst);
  }
  for (const uint64_t number : numbers) {
    locks_.erase(number);
    if (!socket_) continue;
    WindowRequest head = make_request(WindowRequestKind::kForgo, 0);
    head.value = static_cast<int64_t>(number);
    WindowRequests request(head, {}, nullptr, 0, next_number());
    static_cast<void>(send(request));
    // A peer that takes no more: the connection's end does it.
    if (!request.is_done()) give_up(request);
  }
}

Status WindowChannel::look_around(Deadline deadline) const {
  PYCOMMS_RETURN_IF_ERROR(options_.trouble());
  if (deadline.passed()) return {Code::kTimeout, name() + " has not answered in time"};
  return Status::ok();
}

std::string WindowChannel::name() const {
  return "rank " + std::to_string(options_.who.to) + " at " + options_.to.to_text();
}

void WindowChannel::end(Status why) {
  if (ended_.is_ok()) ended_ = std::move(why);
  fd_.store(-1, std::memory_order_relaxed);
  socket_.reset();
  dial_.reset();
}

bool WindowChannel::lose(const std::string& how) {
  // Whoever watches the peer knows better why.
  Status why = options_.trouble();
  if (why.is_ok() || why.code() == Code::kCancelled) {
    why = Status(Code::kPeerFailure, "the connection with the windows of " + name() + " has ended (" + how +
                                         "): its process has ended, or has left the communicator");
  }
  end(std::move(why));
  return false;
}

Status WindowChannel::connect(Deadline deadline) {
  if (socket_) return Status::ok();
  if (!ended_.is_ok()) return ended_;
  if (options_.to.is_none()) {
    end({Code::kPeerFailure,
         "rank " + std::to_string(options_.who.to) + " has no network, so its windows cannot be reached"});
    return ended_;
  }
  // It goes on with the next call if this one has no time for it.
  if (dial_ == nullptr) {
    dial_ = std::make_unique<net::Dial>(options_.who, options_.to, options_.own_scope, options_.socket,
                                        Deadline::after(kTimeToConnect));
  }
  for (;;) {
    const int64_t now = pycomms::now_ns();
    const net::Dial::State state = dial_->advance(now);
    if (state == net::Dial::State::kConnected) break;
    if (dial_->is_over()) {
      end({Code::kPeerFailure, "the windows of " + name() + " cannot be reached: " + dial_->status().message()});
      return ended_;
    }
    PYCOMMS_RETURN_IF_ERROR(look_around(deadline));
    const int64_t until = std::min(dial_->wake_at_ns(), deadline.ns());
    sleep_on(dial_->fd(), dial_->wants_to_write() ? POLLOUT : POLLIN, Deadline::at(until).left(now) + 1000);
  }
  socket_ = dial_->take();
  dial_.reset();
  segment_ = net::segment_bytes(socket_);
  in_ = std::make_unique_for_overwrite<std::byte[]>(kBuffer);
  fd_.store(socket_.get(), std::memory_order_relaxed);
  return Status::ok();
}

Status WindowChannel::exchange(WindowRequests& requests, WindowAnswers& answers, Deadline deadline) {
  PYCOMMS_RETURN_IF_ERROR(connect(deadline));
  int64_t now = pycomms::now_ns();
  int64_t look_at = now + kSlice, spin_until = now + kSpin;
  for (;;) {
    // Between two calls of the kernel that send comes what has come: if both sides only sent, each would fill the other's memory.
    const bool sent = !requests.is_done() && send(requests);
    const bool got = socket_ && receive(answers);
    if (!ended_.is_ok()) return ended_;
    if (requests.is_done() && answers.is_done()) return answers.status();
    now = pycomms::now_ns();
    if (sent || got) {
      spin_until = now + kSpin;
      if (now < look_at && !deadline.passed(now)) continue;
    } else if (requests.is_done() && now < spin_until) {
      sched_yield();
      continue;
    }
    if (Status status = look_around(deadline); !status.is_ok()) {
      give_up(requests);
      return status;
    }
    look_at = now + kSlice;
    if (sent || got) continue;
    sleep_on(socket_.get(), requests.is_done() ? POLLIN : POLLIN | POLLOUT, deadline.left(now));
  }
}

// What still comes for this call is dropped.
void WindowChannel::give_up(const WindowRequests& requests) {
  if (for_ == For::kCaller) {
    for_ = For::kNobody;
    sink_ = nullptr;
  }
  if (!requests.is_amid_request()) return;
  end({Code::kPeerFailure, "the connection with the windows of " + name() +
                               " was closed: a request was given up when part of it was sent"});
}

bool WindowChannel::send(WindowRequests& requests) {
  WindowRequests::Parts parts;
  const auto next = requests.next(parts, segment_);
  const ssize_t sent = net::send_gathered(socket_, next);
  if (sent < 0) {
    const int error = errno;
    // What the peer has said before is still to be read.
    WindowAnswers none;
    while (receive(none)) {
    }
    return lose(std::strerror(error));
  }
  if (sent == 0) return false;
  sent_number_ = requests.number();
  has_unflushed_ = true;
  requests.sent(static_cast<size_t>(sent));
  return true;
}

// True: something has come.
bool WindowChannel::receive(WindowAnswers& answers) {
  if (in_begin_ > 0) {
    std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  const size_t direct = sink_ != nullptr && in_end_ == 0 ? payload_left_ : 0;
  const std::array<iovec, 2> space{{{sink_, direct}, {in_.get() + in_end_, direct > 0 ? kPeek : kBuffer - in_end_}}};
  const ssize_t result = net::receive_scattered(socket_, direct > 0 ? std::span(space) : std::span(space).subspan(1));
  if (result < 0) return lose(errno == 0 ? "it has closed it" : std::strerror(errno));
  if (result == 0) return false;
  const size_t placed = std::min<size_t>(static_cast<size_t>(result), direct);
  if (placed > 0) sink_ += placed;
  payload_left_ -= placed;
  in_end_ += static_cast<size_t>(result) - placed;
  if (placed > 0 && payload_left_ == 0) finish_answer(answers);
  return parse(answers);
}

bool WindowChannel::parse(WindowAnswers& answers) {
  for (;;) {
    const size_t have = in_end_ - in_begin_;
    if (payload_left_ > 0) {
      const size_t part = std::min<uint64_t>(payload_left_, have);
      if (part == 0) return true;
      if (sink_ != nullptr) {
        std::memcpy(sink_, in_.get() + in_begin_, part);
        sink_ += part;
      }
      in_begin_ += part;
      payload_left_ -= part;
      if (payload_left_ == 0) finish_answer(answers);
    } else {
      if (have < sizeof(answer_)) return true;
      std::memcpy(&answer_, in_.get() + in_begin_, sizeof(answer_));
      in_begin_ += sizeof(answer_);
      if (!begin_answer(answers)) return false;
    }
  }
}

// False: it is none, and the connection has ended by it.
bool WindowChannel::begin_answer(WindowAnswers& answers) {
  std::string wrong = check_answer(answer_, sent_number_);
  const auto verdict = static_cast<WindowVerdict>(answer_.verdict);
  const bool has_data = verdict == WindowVerdict::kDone || verdict == WindowVerdict::kPart;
  sink_ = has_data ? nullptr : words_.data();
  if (answers.awaits(answer_.number)) {
    for_ = For::kCaller;
    const bool fits = verdict == WindowVerdict::kPart ? answer_.bytes <= answers.missing()
                                                      : !has_data || answer_.bytes == answers.missing();
    if (!fits && wrong.empty()) {
      wrong = "data of " + std::to_string(answer_.bytes) + " bytes where " + std::to_string(answers.missing()) +
              " were to come";
    }
    if (has_data) sink_ = answers.destination();
  } else if (const auto lock = locks_.find(answer_.number); lock != locks_.end()) {
    for_ = For::kLock;
    if (has_data && answer_.bytes > 0 && wrong.empty()) wrong = "data with a lock";
  } else {
    for_ = answer_.asked == 0 && !has_data ? For::kKept : For::kNobody;
  }
  if (!wrong.empty()) {
    end({Code::kPeerFailure, "the connection with the windows of " + name() + " was closed, for it sent " + wrong});
    return false;
  }
  payload_left_ = answer_.bytes;
  if (payload_left_ == 0) finish_answer(answers);
  return true;
}

Status WindowChannel::status_of_answer() const {
  const std::string window = "window " + std::to_string(answer_.window) + " of rank " + std::to_string(options_.who.to);
  switch (static_cast<WindowVerdict>(answer_.verdict)) {
    case WindowVerdict::kDone:
    case WindowVerdict::kPart:
      return Status::ok();
    case WindowVerdict::kClosed:
      return {Code::kPeerFailure, "rank " + std::to_string(options_.who.to) + " has closed the window"};
    case WindowVerdict::kRefused:
      return {Code::kInvalidArgument,
              window + ": " + std::string(reinterpret_cast<const char*>(words_.data()), answer_.bytes)};
    case WindowVerdict::kTimeout:
      return {Code::kTimeout, "waited in vain for the lock of " + window +
                                  (answer_.rank >= 0 ? ", which rank " + std::to_string(answer_.rank) + " holds" : "")};
  }
  return Status::ok();
}

void WindowChannel::finish_answer(WindowAnswers& answers) {
  const auto verdict = static_cast<WindowVerdict>(answer_.verdict);
  const For whom = std::exchange(for_, For::kNobody);
  sink_ = nullptr;
  switch (whom) {
    case For::kCaller:
      answers.take(verdict == WindowVerdict::kPart ? answer_.bytes : 0);
      if (verdict == WindowVerdict::kPart) return;
      answers.finish(status_of_answer());
      if (answer_.number == sent_number_) has_unflushed_ = false;
      return;
    case For::kLock:
      locks_[answer_.number] = LockAnswer{verdict, answer_.rank, status_of_answer()};
      return;
    case For::kKept:
      if (const Status status = status_of_answer(); kept_.is_ok() && !status.is_ok()) {
        kept_ = Status(status.code(), "what was put or updated before in window " + std::to_string(answer_.window) +
                                          " has failed: " + status.message());
      }
      return;
    case For::kNobody:
      return;
  }
}

pycomms::Result<std::optional<WindowChannel::LockAnswer>> WindowChannel::look_for_lock(uint64_t number) {
  const auto answered = [&]() -> std::optional<LockAnswer> {
    const auto found = locks_.find(number);
    if (found == locks_.end() || !found->second) return std::nullopt;
    std::optional<LockAnswer> answer = std::move(found->second);
    locks_.erase(found);
    return answer;
  };
  if (auto answer = answered()) return answer;
  WindowAnswers none;
  if (socket_) receive(none);
  if (auto answer = answered()) return answer;
  if (!ended_.is_ok()) {
    locks_.erase(number);
    return ended_;
  }
  return std::optional<LockAnswer>();
}

void WindowChannel::wait_for_news(Deadline deadline) const {
  sleep_on(fd_.load(std::memory_order_relaxed), POLLIN, deadline.left());
}

}  // namespace hostccl
