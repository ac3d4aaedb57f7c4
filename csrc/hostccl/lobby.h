// The way back to the convener, open until all ranks see each other: a rank that dies before it can be watched is still
// noticed here. And what the convener has given.
// One thread at a time. Must not know: what is in the segment.
#pragma once

#include <utility>
#include <vector>

#include "base/fd.h"
#include "hostccl/hostccl.h"
#include "hostccl/meeting_wire.h"
#include "hostccl/net/descriptor.h"

namespace hostccl {

class Lobby {
 public:
  explicit Lobby(net::Descriptor connection) : connection_(std::move(connection)) {}

  const pycomms::Fd& segment() const { return segment_; }
  pycomms::Fd take_segment() { return std::move(segment_); }
  void set_segment(pycomms::Fd segment) { segment_ = std::move(segment); }
  // By rank; empty when all are on this host.
  const std::vector<Whereabouts>& roster() const { return roster_; }
  void set_roster(std::vector<Whereabouts> roster) { roster_ = std::move(roster); }

  int fd() const { return connection_.get(); }
  // This rank will not come back. why: kNone, it sees all others; else what the others should know.
  void leave(const Failure& why = {});
  // Does not block. False when a rank has died since; `why` says which.
  bool all_well(int nranks, Failure& why) const;

 private:
  net::Descriptor connection_;
  pycomms::Fd segment_;
  std::vector<Whereabouts> roster_;
};

}  // namespace hostccl
