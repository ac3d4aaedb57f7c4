#include "hostccl/shared_buffers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace hostccl {
namespace {

constexpr size_t kMostImports = 16;
constexpr uint64_t kForgetAfter = 64;  // collectives

struct Region {
  pycomms::Fd fd;
  std::shared_ptr<pycomms::SharedMapping> mapping;
};

struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, Region> regions;  // GUARDED_BY(mutex), by first byte
};

Registry& registry() {  // never destroyed: tensors may outlive main
  static auto* one = new Registry();
  return *one;
}

}  // namespace

bool locate(int fd, uint64_t offset, size_t bytes, SharedLocation& location) {
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (static_cast<uint64_t>(info.st_size) < offset + bytes) return false;
  location = {fd, info.st_dev, info.st_ino, offset};
  return true;
}

std::shared_ptr<pycomms::SharedMapping> map_location(int pid, const SharedLocation& location, size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(location.fd);
  const pycomms::Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  SharedLocation opened;
  if (!locate(fd.get(), location.offset, bytes, opened)) return nullptr;
  if (opened.device != location.device || opened.inode != location.inode) return nullptr;
  auto mapping = pycomms::SharedMapping::map(fd);
  return mapping.is_ok() ? mapping.take() : nullptr;
}

pycomms::Result<void*> allocate_shared(size_t bytes) {
  auto fd = pycomms::create_shared_memory("pycomms-mem", std::max<size_t>(bytes, 1));
  if (!fd.is_ok()) return fd.status();
  auto mapping = pycomms::SharedMapping::map(fd.value());
  if (!mapping.is_ok()) return mapping.status();
  void* const data = mapping.value()->data();
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.regions[static_cast<std::byte*>(data)] = Region{fd.take(), mapping.take()};
  return data;
}

bool free_shared(void* pointer) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return r.regions.erase(static_cast<std::byte*>(pointer)) == 1;
}

SharedLocation find_shared(const void* pointer, size_t bytes) {
  Registry& r = registry();
  const auto* const first = static_cast<const std::byte*>(pointer);
  std::lock_guard lock(r.mutex);
  auto at = r.regions.upper_bound(first);
  SharedLocation location;
  if (at == r.regions.begin()) return location;
  const auto& [begin, region] = *--at;
  const auto offset = static_cast<uint64_t>(first - begin);
  if (offset + bytes <= region.mapping->size()) locate(region.fd.get(), offset, bytes, location);
  return location;
}

std::byte* Imports::map(int pid, const SharedLocation& location, size_t bytes) {
  const auto known = std::find_if(imports_.begin(), imports_.end(), [&](const Import& import) {
    return import.device == location.device && import.inode == location.inode;
  });
  if (known != imports_.end()) {  // an inode that we map cannot be another file by now
    known->used = now_;
    const bool fits = location.offset + bytes <= known->mapping->size();
    return fits ? known->mapping->data() + location.offset : nullptr;
  }
  auto mapping = map_location(pid, location, bytes);
  if (mapping == nullptr) return nullptr;
  if (imports_.size() >= kMostImports) {
    const auto oldest = std::min_element(imports_.begin(), imports_.end(),
                                         [](const Import& a, const Import& b) { return a.used < b.used; });
    if (oldest->used != now_) imports_.erase(oldest);  // those of this collective are about to be used
  }
  imports_.push_back({location.device, location.inode, now_, std::move(mapping)});
  return imports_.back().mapping->data() + location.offset;
}

void Imports::forget_unused(uint64_t now) {
  now_ = now;
  if (imports_.empty()) return;
  std::erase_if(imports_, [&](const Import& import) { return now - import.used > kForgetAfter; });
}

}  // namespace hostccl
