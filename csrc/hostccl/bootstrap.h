// How the ranks of a new communicator find each other on one host: the creator of the unique id listens on an abstract
// Unix socket, every rank introduces itself there, and when all have come each gets a descriptor of the shared segment.
// The secret in the id keeps strangers out; nothing has a name in the file system.
//
// Threads: create_unique_id starts one thread, which ends when all ranks have come, or have been told why it came to
// nothing, or when ten minutes have passed in which nobody came.
// Must not know: what is in the segment.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "hostccl/hostccl.h"

namespace hostccl {

pycomms::Result<nccl_abi::UniqueId> create_unique_id();

// The way back to the creator, open until all ranks are in the segment: a rank that dies before it can be watched there
// is still noticed here.
class Lobby {
 public:
  Lobby(pycomms::Fd segment, pycomms::Fd socket) : segment_(std::move(segment)), socket_(std::move(socket)) {}
  const pycomms::Fd& segment() const { return segment_; }
  // This rank sees all others in the segment, and will not come back.
  void leave();
  // Does not block. False when a rank has died since; `why` says which.
  bool all_well(Failure& why) const;

 private:
  pycomms::Fd segment_;
  pycomms::Fd socket_;
};

// Blocks until all `nranks` ranks have joined under `id`; every one of them gets the same zeroed segment of `bytes`.
// `cancelled` is looked at now and then. Otherwise nothing, and `why`; that of a missed deadline names the ranks that did
// not come.
std::optional<Lobby> join(const nccl_abi::UniqueId& id, int rank, int nranks, size_t bytes, pycomms::Deadline deadline,
                          const std::atomic<bool>& cancelled, Failure& why);

}  // namespace hostccl
