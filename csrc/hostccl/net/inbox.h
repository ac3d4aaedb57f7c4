// The receiving half of a link: reads what has come, checks the frames, and puts each payload where the sink wants it.
// A small message costs one system call. A large one is read straight into the user's memory, together with the header
// that follows it.
//
// Threads: one at a time, which the link sees to. Must not know: sending, who the peer is.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "hostccl/net/descriptor.h"
#include "hostccl/net/frame.h"
#include "hostccl/net/sink.h"

namespace hostccl::net {

class Inbox {
 public:
  enum class Outcome : uint8_t { kNothing, kMoved, kGoodbye, kClosed, kBroken, kMalformed };

  // `stop`: once it is true the sink is called no more.
  Inbox(int peer, const std::atomic<bool>& stop);
  // Reads until nothing is left or kFairShare bytes have come. kClosed: the other side has closed it; kBroken: errno;
  // kGoodbye and kMalformed: reason() says why.
  Outcome receive(const Descriptor& socket, Sink& sink);
  const std::string& reason() const { return reason_; }
  // Something of a message has come, and not all of it.
  bool is_amid_message() const;

 private:
  enum class Parsed : uint8_t { kAll, kGoodbye, kMalformed };
  static constexpr size_t kBufferBytes = 32 << 10;
  static constexpr size_t kPeekBytes = 2 << 10;  // read into the buffer behind a payload that goes to its place
  static constexpr size_t kFairShare = 2 << 20;
  struct LaneState {
    LaneProgress progress;
    Place place;
  };

  ssize_t read_once(const Descriptor& socket, size_t& asked);
  void take(size_t got);
  Parsed parse(Sink& sink);
  void deliver_inline(Sink& sink);
  bool begin_frame(const FrameHeader& header, Sink& sink);
  bool move_payload(Sink& sink);
  void end_frame(Sink& sink);
  std::byte* destination() const;
  bool refuse(std::string why);

  const int peer_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<std::byte[]> buffer_;  // made when the first byte is read
  size_t begin_ = 0;                     // of what was read and not parsed
  size_t end_ = 0;
  std::array<LaneState, kLanes> lanes_;
  LaneState* current_ = nullptr;  // the lane whose frame is under way
  size_t frame_left_ = 0;         // of its payload
  std::string reason_;
};

}  // namespace hostccl::net
