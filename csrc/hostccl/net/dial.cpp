#include "hostccl/net/dial.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace hostccl::net {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::Status;

constexpr int64_t kFirstPause = 2 * pycomms::kMillisecond;
constexpr int64_t kLongestPause = 100 * pycomms::kMillisecond;

}  // namespace

Dial::Dial(const Introduction& who, const Address& to, uint32_t own_scope, const SocketOptions& options,
           Deadline deadline)
    : who_(who), to_(to), own_scope_(own_scope), options_(options), deadline_(deadline), pause_ns_(kFirstPause) {}

int64_t Dial::wake_at_ns() const { return state_ == State::kPausing ? next_try_ns_ : deadline_.ns(); }

Dial::State Dial::advance(int64_t now) {
  for (bool moved = true; moved && !is_over();) {
    switch (state_) {
      case State::kPausing:
        moved = now >= next_try_ns_;
        if (moved) start();
        break;
      case State::kConnecting:
        moved = connect_step();
        break;
      case State::kGreeting:
        moved = greeting_step();
        break;
      case State::kAnswer:
        moved = answer_step();
        break;
      case State::kConnected:
      case State::kRefused:
      case State::kFailed:
        moved = false;
        break;
    }
  }
  if (!is_over() && deadline_.passed(now)) {
    const char* at = state_ == State::kConnecting ? "the connection did not come about" : "no answer to our hello";
    fail({Code::kTimeout, "connecting to " + to_.to_text() + ": " + (last_trouble_.empty() ? at : last_trouble_) +
                              ", until the deadline"});
  }
  return state_;
}

void Dial::start() {
  greeting_ = {};
  answer_ = {};
  auto socket = start_connecting(to_, own_scope_, options_);
  if (!socket.is_ok()) return fail(socket.status());
  socket_ = socket.take();
  state_ = State::kConnecting;
}

bool Dial::connect_step() {
  pollfd look{socket_.get(), POLLOUT, 0};
  if (poll(&look, 1, 0) <= 0) return false;
  if (Status status = finish_connecting(socket_, to_); !status.is_ok()) {
    fail(std::move(status));
    return true;
  }
  state_ = State::kGreeting;
  return true;
}

template <typename Wire>
bool Dial::receive(Partial<Wire>& into) {
  const ssize_t got = receive_some(socket_, into.missing());
  if (got > 0) into.have += static_cast<size_t>(got);
  if (got < 0) {
    try_again(errno == 0 ? "the connection was closed without an answer (it does not know our key, or has ended)"
                         : Status::system("the connection was lost").message());
  }
  return got > 0 && into.is_complete();
}

bool Dial::greeting_step() {
  if (!receive(greeting_)) return false;
  if (const std::string wrong = check_opening(greeting_.value.opening); !wrong.empty()) {
    fail({Code::kPeerFailure, "whoever listens at " + to_.to_text() + " is no peer of ours: " + wrong});
    return true;
  }
  auto nonce = random_bytes16();
  if (!nonce.is_ok()) {
    fail(nonce.status());
    return true;
  }
  hello_ = make_hello(who_, greeting_.value, nonce.value());
  // The socket's buffer is empty: it takes these few bytes whole.
  if (send_some(socket_, std::as_bytes(std::span(&hello_, 1))) != static_cast<ssize_t>(sizeof(hello_))) {
    try_again("our hello could not be sent");
    return false;
  }
  state_ = State::kAnswer;
  return true;
}

bool Dial::answer_step() {
  if (!receive(answer_)) return false;
  const std::string wrong = check_answer(answer_.value, who_.key, greeting_.value, hello_);
  if (!wrong.empty()) {
    fail({Code::kPeerFailure, "whoever listens at " + to_.to_text() + " is no peer of ours: " + wrong});
    return true;
  }
  verdict_ = static_cast<Verdict>(answer_.value.opening.verdict);
  if (verdict_ == Verdict::kAccepted) {
    state_ = State::kConnected;
    return true;
  }
  socket_.reset();
  state_ = State::kRefused;
  status_ = Status(Code::kPeerFailure, "rank " + std::to_string(who_.to) + " at " + to_.to_text() +
                                           " refused the connection: " + verdict_text(verdict_));
  return true;
}

void Dial::try_again(const std::string& why) {
  socket_.reset();
  last_trouble_ = why;
  state_ = State::kPausing;
  next_try_ns_ = pycomms::now_ns() + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPause);
}

void Dial::fail(Status status) {
  socket_.reset();
  state_ = State::kFailed;
  status_ = std::move(status);
}

}  // namespace hostccl::net
