// What a segment asks of whoever carries its writes to other hosts (courier.h); a communicator on one host has none.
// Any thread. Must not know: connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hostccl {

class Remote {
 public:
  virtual ~Remote() = default;
  // This rank has written something for `peer`, which is on another host, or has read something that it wrote.
  virtual void published(int peer) = 0;
  // The fault record has been written.
  virtual void failed() = 0;
  // Sends what would lie at `position` of the ring that `peer` alone reads, from the caller's memory: the ring gets positions
  // only. The memory stays as it is until handed_over(peer) has come to its end, or let_go() was called. False: not now.
  virtual bool hand_over(int peer, uint64_t position, std::span<const std::byte> bytes) = 0;
  // The position up to which what was handed over is with the kernel.
  virtual uint64_t handed_over(int peer) const = 0;
  // Whoever waits for that has given up: uses memory of callers no more.
  virtual void let_go() = 0;
  // Receives, and sends what could not be sent before. True when anything came. Never blocks.
  virtual bool progress() = 0;
  // Why `peer`, on another host, counts as gone; empty: this rank does not know.
  virtual std::string why_gone(int peer) const = 0;
};

}  // namespace hostccl
