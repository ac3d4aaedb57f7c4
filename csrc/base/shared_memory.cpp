#include "base/shared_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

namespace pycomms {
namespace {

using FileId = std::pair<dev_t, ino_t>;

std::mutex mappings_mutex;
std::map<FileId, std::weak_ptr<SharedMapping>>& mappings() {  // never destroyed: threads may outlive main
  static auto* table = new std::map<FileId, std::weak_ptr<SharedMapping>>();
  return *table;
}

}  // namespace

Result<Fd> create_shared_memory(const char* label, size_t bytes) {
  Fd fd(memfd_create(label, MFD_CLOEXEC));
  if (!fd) return Status::system("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::system("shared memory of " + std::to_string(bytes) + " bytes");
  }
  return fd;
}

Result<std::shared_ptr<SharedMapping>> SharedMapping::map(const Fd& fd) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return Status::system("fstat of shared memory");
  const auto size = static_cast<size_t>(info.st_size);

  std::lock_guard lock(mappings_mutex);
  std::erase_if(mappings(), [](const auto& entry) { return entry.second.expired(); });
  auto& known = mappings()[{info.st_dev, info.st_ino}];
  if (auto live = known.lock()) return live;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return Status::system("mapping shared memory of " + std::to_string(size) + " bytes");
  std::shared_ptr<SharedMapping> mapping(new SharedMapping(static_cast<std::byte*>(data), size));
  known = mapping;
  return mapping;
}

SharedMapping::~SharedMapping() { munmap(data_, size_); }

}  // namespace pycomms
