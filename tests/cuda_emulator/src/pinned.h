// Host memory that the device may use while the program goes on: allocated here, or registered. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace cuemu {

class PinnedMemory {
 public:
  void* allocate(size_t bytes, unsigned flags);  // null: no memory
  void release(void* start);                     // throws when allocate() did not return it
  void add(void* start, size_t bytes, unsigned flags);
  void remove(void* start);

  // Whether all of it is pinned, in one piece.
  bool contains(const void* address, size_t bytes) const;
  unsigned flags_of(const void* address) const;  // throws when it is not pinned

 private:
  struct Piece {
    size_t bytes;
    unsigned flags;
    bool allocated;
  };
  using Pieces = std::map<const std::byte*, Piece>;
  Pieces::const_iterator find(const void* address) const;

  mutable std::mutex mutex_;
  Pieces pieces_;  // GUARDED_BY(mutex_)
};

PinnedMemory& pinned_memory();

}  // namespace cuemu
