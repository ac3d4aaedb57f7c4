// Memory that the other ranks can map: what our allocator made, and what the caller says lies in a shared file. Large
// all_reduces of such memory read and write the peers' buffers directly, without a copy in between.
//
// Threads: the registry any, Imports the lane's. Must not know: algorithms.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/shared_memory.h"

namespace hostccl {

// Where a buffer is, as another process of this host can find it: descriptor `fd` of the owner's process.
struct SharedLocation {
  int32_t fd = -1;  // -1: the buffer cannot be shared
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;
};

// False when `fd` is no file of at least offset + bytes.
bool locate(int fd, uint64_t offset, size_t bytes, SharedLocation& location);
// The whole file of a location of process `pid`, as long as the file is still the one that was meant. Null when it cannot be
// mapped here: another user's process, another container, or it has gone.
std::shared_ptr<pycomms::SharedMapping> map_location(int pid, const SharedLocation& location, size_t bytes);

// Our allocator: regions whose descriptors stay open, so that any pointer into them can be located.
pycomms::Result<void*> allocate_shared(size_t bytes);
bool free_shared(void* pointer);
SharedLocation find_shared(const void* pointer, size_t bytes);

// Peers' regions that this rank has mapped. Few are kept, and none for long after its last use: a mapping keeps the
// memory alive that its owner may have freed.
class Imports {
 public:
  // Null when the region cannot be mapped here (permissions, another user's process, already gone).
  std::byte* map(int pid, const SharedLocation& location, size_t bytes);
  // To be called now and then.
  void forget_unused(uint64_t now);

 private:
  struct Import {
    uint64_t device;
    uint64_t inode;
    uint64_t used;
    std::shared_ptr<pycomms::SharedMapping> mapping;
  };
  std::deque<Import> imports_;
  uint64_t now_ = 0;
};

}  // namespace hostccl
