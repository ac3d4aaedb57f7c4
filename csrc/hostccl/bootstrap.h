// How the ranks of a new communicator find each other on one host: the creator of the unique id listens on an abstract
// Unix socket, every rank introduces itself there, and when all have come each gets a descriptor of the shared segment.
// The secret in the id keeps strangers out; nothing has a name in the file system.
//
// Threads: create_unique_id starts one thread, which ends when all ranks have come or a deadline has passed.
// Must not know: what is in the segment.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "hostccl/nccl_abi.h"

namespace hostccl {

pycomms::Result<nccl_abi::UniqueId> create_unique_id();

// Blocks until all `nranks` ranks have joined under `id`; every one of them gets the same zeroed segment of `bytes`.
// `cancelled` is looked at now and then. The error of a missed deadline names the ranks that did not come.
pycomms::Result<pycomms::Fd> join(const nccl_abi::UniqueId& id, int rank, int nranks, size_t bytes,
                                  pycomms::Deadline deadline, const std::atomic<bool>& cancelled);

}  // namespace hostccl
