// One client of the service: what it asks is read, done and answered here, as far as its connection goes at the moment. What is
// large goes between the connection and the window's memory without a stop. A client that does not read its answers is not read.
//
// The service's thread. Nothing waits. Must not know: other clients, epoll.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hostccl/net/socket.h"
#include "hostccl/windows/client_locks.h"
#include "hostccl/windows/memory.h"
#include "hostccl/windows/wire.h"

namespace hostccl {

// What the sessions of a service have in common.
struct WindowHost {
  std::function<std::shared_ptr<const WindowMemory>(uint32_t window)> find;  // null: there is none, or no longer
  std::function<bool(int rank)> is_dead;
  uint64_t unlocks = 0;  // grows when somebody may have a lock now
};

class WindowSession {
 public:
  static constexpr size_t kBuffer = 32 << 10;  // each way
  static constexpr size_t kDirect = 16 << 10;  // a piece of so many bytes passes through no buffer
  static constexpr size_t kPartBytes = 512 << 10;
  static constexpr size_t kBurst = 512 << 10;  // then it is the next one's turn

  WindowSession(WindowHost& host, int client, net::Descriptor socket, const net::Address& at);

  enum class Outcome : uint8_t {
    kIdle,  // until the connection can be read, or written if waits_for_output()
    kMore,  // its turn is over
    kEnded,
  };
  Outcome advance();

  int fd() const { return socket_.get(); }
  bool waits_for_output() const { return is_blocked_; }
  bool waits_for_lock() const { return locks_.is_waiting(); }
  // The next advance() tries the locks that it waits for.
  void look_at_locks() { locks_are_due_ = true; }
  // Nothing of this window is touched any more.
  void release(uint32_t window);

  const net::Address& at() const { return at_; }
  // Why the connection had to be ended; empty: the client did it.
  const std::string& nonsense() const { return nonsense_; }

 private:
  enum class State : uint8_t { kHeader, kPieces, kPut, kGet, kUpdate, kCompareSwap, kDropping };
  enum class Step : uint8_t { kMoved, kNeedsInput, kNeedsOutput, kEnded };

  Step step();
  Step read_header();
  Step read_pieces();
  Step begin();
  Step put_some();
  Step get_some();
  Step update_some();
  Step compare_and_swap();
  Step drop_some();

  Step end_request(WindowVerdict verdict, const std::string& words = {}, int rank = -1);
  Step talk_nonsense(const std::string& what);
  std::string check_request_here() const;
  bool is_gone() const { return memory_ == nullptr || memory_->is_closed(); }
  bool next_piece();
  WindowPiece rest_of_piece(uint64_t most) const;
  void answer_locks();

  // What has come, and has not been dealt with.
  const std::byte* input() const { return in_.get() + in_begin_; }
  size_t input_bytes() const { return in_end_ - in_begin_; }
  void consume(size_t bytes);
  bool receive();

  // What is to be sent: the buffer, then `direct_bytes_` from the memory.
  size_t room() const { return kBuffer - out_end_; }
  bool has_output() const { return out_end_ > out_begin_ || direct_bytes_ > 0; }
  void append(const void* bytes, size_t count);
  void append_answer(const WindowAnswer& answer) { append(&answer, sizeof(answer)); }
  void append_reply(const WindowReply& reply);
  void open_part();
  void seal_part(WindowVerdict verdict);
  bool send();
  void account_sent(size_t sent);
  void spend(size_t bytes) { budget_ -= std::min(budget_, bytes); }

  WindowHost& host_;
  const int client_;
  net::Descriptor socket_;
  const net::Address at_;
  const size_t segment_;

  State state_ = State::kHeader;
  WindowRequest request_{};
  std::vector<WindowPiece> pieces_;
  std::shared_ptr<const WindowMemory> memory_;  // shared: the owner may close the window meanwhile
  size_t piece_ = 0;                            // the one that is under way,
  uint64_t piece_done_ = 0;                     // and how much of it is done
  uint64_t payload_left_ = 0;
  ClientLocks locks_;
  bool locks_are_due_ = false;

  std::unique_ptr<std::byte[]> in_;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  bool is_drained_ = false;  // by the last receive()

  static constexpr size_t kNone = ~size_t{0};
  static constexpr size_t kReserve = sizeof(WindowAnswer) + kWindowWords;  // of room, for a verdict
  std::unique_ptr<std::byte[]> out_;
  size_t out_begin_ = 0;
  size_t out_end_ = 0;
  size_t part_ = kNone;                // where the answer begins that is being written
  const std::byte* direct_ = nullptr;  // null: the window has gone, and zeros stand for what was promised
  uint64_t direct_bytes_ = 0;
  bool is_blocked_ = false;

  size_t budget_ = 0;
  std::string nonsense_;
};

}  // namespace hostccl
