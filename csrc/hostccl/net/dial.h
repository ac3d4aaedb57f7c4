// The client's side of a connection while it is being opened: a state machine that moves on whenever somebody looks.
// A server that closes without an answer (it was flooded, or is being replaced) is tried again until the deadline; a
// refusal, and an address where nobody listens, end it at once.
//
// Threads: one at a time. Nothing blocks. Must not know: endpoints, links.
#pragma once

#include <string>

#include "base/clock.h"
#include "hostccl/net/hello.h"
#include "hostccl/net/socket.h"

namespace hostccl::net {

class Dial {
 public:
  enum class State : uint8_t {
    kConnecting,
    kGreeting,   // waits for the server's
    kAnswer,     // has said hello, waits for the verdict
    kPausing,    // until the next try
    kConnected,  // take()
    kRefused,    // verdict() says how
    kFailed,     // status() says why
  };

  // own_scope: see Address::to_socket_address.
  Dial(const Introduction& who, const Address& to, uint32_t own_scope, const SocketOptions& options,
       pycomms::Deadline deadline);

  State advance(int64_t now);
  State state() const { return state_; }
  bool is_over() const { return state_ >= State::kConnected; }
  const pycomms::Status& status() const { return status_; }
  Verdict verdict() const { return verdict_; }
  Descriptor take() { return std::move(socket_); }

  // What to wait for: this descriptor (-1: none) becoming writable or readable, at most until then.
  int fd() const { return socket_.get(); }
  bool wants_to_write() const { return state_ == State::kConnecting; }
  int64_t wake_at_ns() const;

 private:
  void start();
  bool connect_step();
  bool greeting_step();
  bool answer_step();
  // Of what the server sends; false: not all of it is there, or the connection is lost.
  template <typename Wire>
  bool receive(Partial<Wire>& into);
  void try_again(const std::string& why);
  void fail(pycomms::Status status);

  const Introduction who_;
  const Address to_;
  const uint32_t own_scope_;
  const SocketOptions options_;
  const pycomms::Deadline deadline_;

  State state_ = State::kPausing;
  int64_t next_try_ns_ = 0;
  int64_t pause_ns_;
  std::string last_trouble_;
  Descriptor socket_;
  Partial<Greeting> greeting_;
  Hello hello_{};
  Partial<Answer> answer_;
  Verdict verdict_ = Verdict::kAccepted;
  pycomms::Status status_;
};

}  // namespace hostccl::net
