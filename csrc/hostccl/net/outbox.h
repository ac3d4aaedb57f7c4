// The sending half of a link: what waits to be sent, by lane, and how it becomes frames. Payloads are gathered from the
// user's memory; small messages share a system call.
//
// Threads: one at a time, which the link sees to. Must not know: receiving, who the peer is.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/status.h"
#include "hostccl/net/descriptor.h"
#include "hostccl/net/frame.h"
#include "hostccl/net/parcel.h"

namespace hostccl::net {

class Outbox {
 public:
  static constexpr size_t kParcels = 1024;  // waiting in a lane at most
  static constexpr size_t kFrames = 16;     // of one system call at most
  static constexpr size_t kBatchBytes = 1 << 20;

  enum class Outcome : uint8_t {
    kEmpty,    // all is with the kernel
    kMore,     // the kernel may take more: call again
    kBlocked,  // the kernel takes no more for now
    kBroken,   // errno
  };
  // What has left, to be called when no lock is held.
  struct Finished {
    std::array<Completion, kFrames> calls;
    size_t count = 0;
    size_t bytes = 0;  // that the kernel took
  };

  // Of one system call, from here on. The kernel cuts what it is given into segments, and a call that ends in the middle of
  // one costs a segment more; where it paces what it sends, a small last one may wait for a timer.
  void set_burst(size_t bytes) { burst_ = bytes; }

  // False: the lane is full.
  bool add(Lane lane, const Message& message, const Payload& payload, Completion done);
  bool is_empty() const;
  // One system call.
  Outcome flush(const Descriptor& socket, Finished& finished);
  // The newest of the lane, if anything of it is left and nobody waits for it: its memory is the caller's no longer.
  void keep_newest(Lane lane);
  // Nothing that waits needs the memory of whoever sent it.
  void keep_all();
  // Gives everything up. Returns who has to be told.
  std::vector<Completion> give_up();

 private:
  struct Batch;

  void plan(Batch& batch);
  void account(const Batch& batch, size_t sent, Finished& finished);

  std::array<ParcelQueue, kLanes> lanes_;
  size_t burst_ = kBatchBytes;
  // A frame of which a part has been sent, with its header.
  size_t partial_ = 0;
  size_t partial_lane_ = 0;
};

}  // namespace hostccl::net
