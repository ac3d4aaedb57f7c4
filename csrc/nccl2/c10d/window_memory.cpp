#include "nccl2/c10d/window_memory.h"

#include <ATen/MapAllocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "base/writable.h"
#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {
namespace {

// The two memories of a storage that was moved: whoever still has a pointer into the old one must not write into memory of others.
struct Moved {
  c10::DataPtr now;
  c10::DataPtr before;
};

// Its pages, but not its addresses.
void give_pages_back(void* data, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

bool is_torchs_own(const c10::DataPtr& memory) {
  return memory.get() != nullptr && memory.get_deleter() == c10::GetCPUAllocator()->raw_deleter();
}

void move_to(c10::Allocator& shared, c10::StorageImpl& storage) {
  const size_t bytes = storage.nbytes();
  auto moved = std::make_unique<Moved>();
  moved->now = shared.allocate(bytes);
  void* const data = moved->now.get();
  std::memcpy(data, storage.data(), bytes);
  c10::DataPtr to(data, moved.get(), [](void* context) { delete static_cast<Moved*>(context); }, at::kCPU);
  moved->before = storage.set_data_ptr(std::move(to));
  give_pages_back(moved->before.get(), bytes);
  static_cast<void>(moved.release());  // the storage has it
  storage.set_resizable(false);
}

using Owner = std::shared_ptr<c10::DataPtr>;

void let_go(void* owner) { delete static_cast<Owner*>(owner); }

// From now on the storage is one of the owners of its memory, and the caller another.
Owner own_too(c10::StorageImpl& storage) {
  const c10::DataPtr& before = storage.data_ptr();
  if (before.get_deleter() == &let_go) return *static_cast<Owner*>(before.get_context());
  auto owner = std::make_shared<c10::DataPtr>();
  c10::DataPtr now(before.get(), new Owner(owner), &let_go, before.device());
  *owner = storage.set_data_ptr(std::move(now));
  return owner;
}

}  // namespace

std::shared_ptr<void> make_reachable(const at::Tensor& tensor, c10::Allocator& shared,
                                     hostccl::WindowOptions* options) {
  tensor.mutable_data_ptr();  // a lazy clone gets memory of its own: others must not write into what it was cloned of
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (const at::MapAllocator* map = at::MapAllocator::fromDataPtr(storage.data_ptr()); map != nullptr) {
    options->fd = map->fd();
    options->offset = static_cast<uint64_t>(tensor.storage_offset()) * tensor.element_size();
  } else if (is_torchs_own(storage.data_ptr())) {
    move_to(shared, storage);
  } else {
    if (!is_writable(tensor.const_data_ptr(), tensor.nbytes())) {
      throw_value_error("window", "memory is read-only, and other ranks would write to it: make the window of a copy");
    }
    return own_too(storage);
  }
  return nullptr;
}

}  // namespace pycomms::c10d_backend
