// How the members of an existing communicator agree on the unique id of a new one where the old one may be broken: the
// leader shows it under a name that all can work out, and serves it to those who come. An abstract Unix socket: nothing is
// left behind. Threads: any; each blocks until done, cancelled or late.
#pragma once

#include <atomic>
#include <string>

#include "inner.h"

namespace nccl_emulator {

// Serves the id to `readers` others.
pycomms::Status show_notice(const std::string& name, const UniqueId& id, int readers, pycomms::Deadline deadline,
                            const std::atomic<bool>& cancelled);
pycomms::Result<UniqueId> read_notice(const std::string& name, pycomms::Deadline deadline,
                                      const std::atomic<bool>& cancelled);

}  // namespace nccl_emulator
