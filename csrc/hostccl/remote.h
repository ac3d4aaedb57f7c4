// What a segment asks of whoever carries its writes to other hosts (courier.h); a communicator on one host has none.
// Any thread. Must not know: connections.
#pragma once

#include <string>

namespace hostccl {

class Remote {
 public:
  virtual ~Remote() = default;
  // This rank has written something for `peer`, which is on another host, or has read something that it wrote.
  virtual void published(int peer) = 0;
  // The fault record has been written.
  virtual void failed() = 0;
  // Receives, and sends what could not be sent before. True when anything came. Never blocks.
  virtual bool progress() = 0;
  // Why `peer`, on another host, counts as gone; empty: this rank does not know.
  virtual std::string why_gone(int peer) const = 0;
};

}  // namespace hostccl
