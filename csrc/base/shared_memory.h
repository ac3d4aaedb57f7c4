// Memory shared between processes without a name: a memfd, mapped. Nothing is left behind however a process ends.
// Must not know: what is stored in it.
#pragma once

#include <cstddef>
#include <memory>

#include "base/fd.h"
#include "base/status.h"

namespace pycomms {

// A new zeroed region of `bytes`; the kernel provides its pages as they are touched. `label` shows in /proc/*/maps.
Result<Fd> create_shared_memory(const char* label, size_t bytes);

// A shared mapping of the whole file. Mapping the same file twice in one process gives the same address (ranks that are
// threads of one process then share addresses too, which lets a race detector see both).
class SharedMapping {
 public:
  static Result<std::shared_ptr<SharedMapping>> map(const Fd& fd);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  SharedMapping(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* const data_;
  const size_t size_;
};

}  // namespace pycomms
