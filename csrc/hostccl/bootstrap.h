// How the ranks of a new communicator find each other. Who makes the unique id convenes them (convener.h): on its own host
// they come through an abstract Unix socket, from other hosts over TCP. Each host has one segment of shared memory, which the
// convener hands out on its host, and the first rank on every other one. The secret in the id keeps strangers out; nothing has a
// name in the file system.
//
// Threads: create_unique_id starts one thread; join starts one on the first rank of a host that is not the convener's.
// Must not know: what is in the segment.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "hostccl/hostccl.h"
#include "hostccl/lobby.h"
#include "hostccl/places.h"

namespace hostccl {

pycomms::Result<nccl_abi::UniqueId> create_unique_id();
// An id that all make for themselves: they know where the process of the first rank is, and share a secret. The ids of those who
// do not have the same agenda differ in that, and they hear of it when they meet.
nccl_abi::UniqueId meeting_id(const Whereabouts& convener, const std::string& secret, const std::string& agenda);
// On the first rank: convenes the members, of whom all whereabouts are known, by rank. Until the deadline.
pycomms::Status convene(const nccl_abi::UniqueId& id, const std::vector<Whereabouts>& members,
                        pycomms::Deadline deadline);
// Of the ranks that meet under this id: the key of all their connections.
Bytes16 secret_of(const nccl_abi::UniqueId& id);

// Blocks until all `nranks` ranks have joined under `id`; all on one host get the same zeroed segment of `bytes`.
// `cancelled` is looked at now and then. Otherwise nothing, and `why`; that of a missed deadline names the ranks that did
// not come.
std::optional<Lobby> join(const nccl_abi::UniqueId& id, int rank, int nranks, size_t bytes, pycomms::Deadline deadline,
                          const std::atomic<bool>& cancelled, Failure& why);

// From what the lobby tells: who is on which host.
Places places_of(const std::vector<Whereabouts>& roster, int nranks, int rank);

}  // namespace hostccl
