#include "recorder/reader.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/fd.h"
#include "base/fence.h"

namespace pycomms::recorder {
namespace {

constexpr int kTries = 100;

bool fits(uint64_t at, uint64_t count, uint64_t each, uint64_t size) {
  return at <= size && each != 0 && count <= (size - at) / each;
}

Status check(const std::string& path, const Header& h, uint64_t size) {
  const auto bad = [&](const std::string& why) { return Status(Code::kInvalidArgument, path + ": " + why); };
  if (std::memcmp(h.magic, kMagic, sizeof(kMagic)) != 0) return bad("is no file of a flight recorder");
  if (h.version == 0 || h.version > kVersion) {  // the first one is as this, with no group in another's slot
    return bad("has format " + std::to_string(h.version) + ", this program reads " + std::to_string(kVersion));
  }
  if (h.group_bytes != sizeof(GroupSlot) || h.slot_bytes != sizeof(Slot) || h.groups_at % 128 != 0 ||
      h.slots_at % 64 != 0 || !fits(h.groups_at, h.group_capacity, sizeof(GroupSlot), size) ||
      !fits(h.slots_at, h.slot_capacity, sizeof(Slot), size) || h.heap_at > size) {
    return bad("is damaged, or cut off before its heap");
  }
  return {};
}

}  // namespace

bool copy_slot(const Slot& slot, Slot* copy) {
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = slot.version.load(std::memory_order_acquire);
    std::memcpy(static_cast<void*>(copy), static_cast<const void*>(&slot), sizeof(Slot));
    fence(std::memory_order_acquire);
    if (slot.version.load(std::memory_order_relaxed) == before && before % 4 != kWriting) return true;
    sched_yield();
  }
  return false;
}

Result<std::unique_ptr<Reader>> Reader::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Status::system("cannot open " + path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return Status::system("cannot look at " + path);
  const auto size = static_cast<size_t>(info.st_size);
  if (size < kHeaderBytes) return Status(Code::kInvalidArgument, path + ": is no file of a flight recorder");
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return Status::system("cannot map " + path);
  std::unique_ptr<Reader> reader(new Reader(static_cast<const std::byte*>(data), size));
  PYCOMMS_RETURN_IF_ERROR(check(path, reader->header(), size));
  return reader;
}

Reader::~Reader() { munmap(const_cast<std::byte*>(data_), size_); }

std::string Reader::text(Text at) const {
  const uint64_t start = header().heap_at + at;
  uint32_t length = 0;
  if (at == 0 || !fits(start, 1, sizeof(length), size_)) return {};
  std::memcpy(&length, data_ + start, sizeof(length));
  if (!fits(start + sizeof(length), length, 1, size_)) return {};
  return {reinterpret_cast<const char*>(data_ + start + sizeof(length)), length};
}

std::vector<SeenGroup> Reader::groups() const {
  std::vector<SeenGroup> seen;
  const auto* slots = reinterpret_cast<const GroupSlot*>(data_ + header().groups_at);
  const uint32_t count = std::min(header().groups.load(std::memory_order_acquire), header().group_capacity);
  for (uint32_t i = 0; i < count; ++i) {
    const GroupSlot& slot = slots[i];
    SeenGroup group;
    if (slot.is_there.load(std::memory_order_acquire) == 0) {  // it is becoming another's
      group.number = UINT32_MAX;
      seen.push_back(std::move(group));
      continue;
    }
    const uint32_t life = slot.life.load(std::memory_order_relaxed);
    group.number = life * kMostGroups + i;
    group.name = text(slot.name);
    group.description = text(slot.description.load(std::memory_order_relaxed));
    group.device = text(slot.device);
    const std::string ranks = text(slot.ranks);
    group.ranks.resize(ranks.size() / sizeof(uint32_t));
    if (!group.ranks.empty()) std::memcpy(group.ranks.data(), ranks.data(), group.ranks.size() * sizeof(uint32_t));
    group.rank = slot.rank;
    group.size = slot.size;
    group.generation = slot.generation;
    group.issued = slot.issued.load(std::memory_order_relaxed);
    group.started = slot.started.load(std::memory_order_relaxed);
    group.completed = slot.completed.load(std::memory_order_relaxed);
    group.requests = slot.requests.load(std::memory_order_relaxed);
    group.is_late = slot.is_late != 0;
    group.has_left = slot.left.load(std::memory_order_relaxed) != 0;
    fence(std::memory_order_acquire);
    if (slot.is_there.load(std::memory_order_relaxed) == 0 || slot.life.load(std::memory_order_relaxed) != life) {
      group = SeenGroup();
      group.number = UINT32_MAX;
    }
    seen.push_back(std::move(group));
  }
  return seen;
}

std::vector<SeenEntry> Reader::entries(size_t* torn) const {
  std::vector<SeenEntry> seen;
  size_t cut_off = 0;
  const auto* slots = reinterpret_cast<const Slot*>(data_ + header().slots_at);
  for (uint32_t i = 0; i < header().slot_capacity; ++i) {
    Slot s;
    const bool is_whole = copy_slot(slots[i], &s);
    const uint64_t version = s.version.load(std::memory_order_relaxed);
    if (is_whole && version == 0) continue;  // never used
    if (!is_whole || s.version_behind.load(std::memory_order_relaxed) != version / 4 * 4 + kWhole) {
      ++cut_off;
      continue;
    }
    const size_t sizes = std::min<size_t>(s.sizes_used, kSizesBytes);
    seen.push_back({.index = version / 4,
                    .issued_ns = s.issued_ns,
                    .started_ns = s.started_ns.load(std::memory_order_relaxed),
                    .ended_ns = s.ended_ns.load(std::memory_order_relaxed),
                    .group = s.group,
                    .sequence = s.sequence.load(std::memory_order_relaxed),
                    .timeout_ms = s.timeout_ms,
                    .thread = s.thread,
                    .state = s.state.load(std::memory_order_relaxed),
                    .flags = s.flags,
                    .kind = s.kind,
                    .reduction = s.reduction,
                    .root = s.root,
                    .peer = s.peer,
                    .tag = s.tag,
                    .bytes = s.bytes,
                    .stream = s.stream,
                    .site = text(s.site),
                    .stack = text(s.stack),
                    .error = text(s.error.load(std::memory_order_relaxed)),
                    .sizes = {s.sizes, s.sizes + sizes}});
  }
  std::sort(seen.begin(), seen.end(), [](const SeenEntry& a, const SeenEntry& b) { return a.index < b.index; });
  if (torn != nullptr) *torn = cut_off;
  return seen;
}

}  // namespace pycomms::recorder
