// An owned file descriptor that is closed in every forked child. A child that kept a copy of a connection would hide its
// parent's death from the peer: the kernel ends a connection when the last copy goes, and data loaders live on.
//
// What the kernel hands out is unguarded until it is wrapped: a child forked in that moment keeps a copy, and the death of
// its parent is then seen by heartbeats only.
//
// Threads: a Descriptor belongs to its owner; forking is safe at any time. Must not know: what the descriptor is.
#pragma once

#include "base/fd.h"

namespace hostccl::net {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(pycomms::Fd fd);
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  // -1 when empty, and in a forked child.
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  struct ForkTable;
  void link();
  void unlink();

  int fd_ = -1;
  Descriptor* before_ = nullptr;  // both GUARDED_BY the fork table's mutex
  Descriptor* after_ = nullptr;
};

}  // namespace hostccl::net
