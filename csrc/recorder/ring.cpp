#include "recorder/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/fd.h"
#include "base/fence.h"
#include "recorder/process.h"

namespace pycomms::recorder {
namespace {

constexpr int kUpdateTries = 1000;     // to update an entry that another thread updates: a few stores
constexpr size_t kLongestText = 8192;  // of an error, say; a group's ranks may be longer
constexpr size_t kHeapBytes = 512 << 10;

size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

uint32_t thread_id() {
  thread_local uint32_t id = 0, of = 0;  // a forked child's first thread is another one
  if (id == 0 || of != fork_generation()) {
    id = static_cast<uint32_t>(syscall(SYS_gettid));
    of = fork_generation();
  }
  return id;
}

int64_t wall_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * kSecond + t.tv_nsec;
}

void raise_to(std::atomic<uint32_t>& mark, uint32_t value) {
  uint32_t seen = mark.load(std::memory_order_relaxed);
  while (seen < value && !mark.compare_exchange_weak(seen, value, std::memory_order_relaxed)) continue;
}

std::atomic<Ring*> the_ring{nullptr};

}  // namespace

// --- the file

Result<std::unique_ptr<Ring>> Ring::create(const RingOptions& options) {
  if (options.entries == 0 || options.groups == 0) {
    return Status(Code::kInvalidArgument, "a flight recorder needs room for at least 1 entry and 1 group");
  }
  if (options.groups > kMostGroups) {
    return Status(Code::kInvalidArgument, "a flight recorder has room for " + std::to_string(kMostGroups) +
                                              " groups at most, not " + std::to_string(options.groups));
  }
  const size_t groups_at = kHeaderBytes;
  const size_t slots_at = groups_at + options.groups * sizeof(GroupSlot);
  const size_t heap_at = slots_at + size_t{options.entries} * sizeof(Slot);
  const size_t heap_bytes = kHeapBytes + size_t{64} * static_cast<size_t>(std::max(options.world_size, 0));
  const size_t size = rounded(heap_at + heap_bytes);

  Fd fd(open(options.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return Status::system("cannot make " + options.path);
  if (const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(size)); error != 0) {
    unlink(options.path.c_str());
    return Status::system("no room for " + std::to_string(size) + " bytes of " + options.path, error);
  }
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    const Status status = Status::system("cannot map " + options.path);
    unlink(options.path.c_str());
    return status;
  }

  auto* header = new (data) Header();
  header->version = kVersion;
  header->header_bytes = kHeaderBytes;
  header->file_bytes = size;
  header->groups_at = groups_at;
  header->group_bytes = sizeof(GroupSlot);
  header->group_capacity = options.groups;
  header->slots_at = slots_at;
  header->slot_bytes = sizeof(Slot);
  header->slot_capacity = options.entries;
  header->heap_at = heap_at;
  header->heap_bytes = size - heap_at;
  header->heap_used = 8;  // offset zero means none
  header->rank = options.rank;
  header->world_size = options.world_size;
  header->attempt = options.attempt;
  header->pid = getpid();
  header->process_started = started_ticks(getpid());
  header->opened_monotonic_ns = now_ns();
  header->opened_wall_ns = wall_ns();

  std::unique_ptr<Ring> ring(new Ring(options.path, static_cast<std::byte*>(data), size));
  ring->look_at_clocks();
  header->host = ring->intern(host_name());
  header->job = ring->intern(options.job);
  header->library = ring->intern(options.library);
  header->kinds = ring->intern(options.kinds);
  header->dtypes = ring->intern(options.dtypes);
  header->reductions = ring->intern(options.reductions);
  // Group zero stands for those that have no room.
  new (&ring->slot_at(0)) GroupSlot();
  ring->slot_at(0).name = ring->intern("(one of the groups that the record has no room for)");
  ring->slot_at(0).is_there = 1;
  header->groups = 1;
  fence(std::memory_order_release);
  std::memcpy(header->magic, kMagic, sizeof(kMagic));
  return ring;
}

Ring::Ring(std::string path, std::byte* data, size_t size)
    : path_(std::move(path)),
      data_(data),
      size_(size),
      slots_(reinterpret_cast<Slot*>(data + header().slots_at)),
      capacity_(header().slot_capacity) {}

Ring::~Ring() { munmap(data_, size_); }

size_t Ring::used() const { return header().heap_at + header().heap_used.load(std::memory_order_acquire); }

void Ring::look_at_clocks() {
  header().recent_monotonic_ns.store(now_ns(), std::memory_order_relaxed);
  header().recent_wall_ns.store(wall_ns(), std::memory_order_relaxed);
}

// --- the heap

Text Ring::append(std::string_view bytes) {
  Header& h = header();
  const uint64_t at = h.heap_used.load(std::memory_order_relaxed);
  const uint64_t end = (at + sizeof(uint32_t) + bytes.size() + 3) / 4 * 4;
  if (end > h.heap_bytes) {
    h.heap_lost.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  std::byte* place = data_ + h.heap_at + at;
  const auto length = static_cast<uint32_t>(bytes.size());
  std::memcpy(place, &length, sizeof(length));
  if (length != 0) std::memcpy(place + sizeof(length), bytes.data(), length);
  h.heap_used.store(end, std::memory_order_release);
  return static_cast<Text>(at);
}

Text Ring::intern(std::string_view text) {
  const std::lock_guard lock(mutex_);
  return intern_whole(text.substr(0, kLongestText));
}

Text Ring::intern_whole(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto known = texts_.find(std::string(text)); known != texts_.end()) return known->second;
  const Text made = append(text);
  if (made != 0) texts_.emplace(text, made);
  return made;
}

// --- groups

uint32_t Ring::add_group(const GroupInfo& group) {
  const Text name = intern(group.name);
  const Text description = intern(group.description);
  const Text device = intern(group.device);
  const std::lock_guard lock(mutex_);
  // The same members come again and again in a program that makes and destroys groups.
  const Text ranks =
      intern_whole({reinterpret_cast<const char*>(group.ranks.data()), group.ranks.size() * sizeof(uint32_t)});
  const bool has_ranks = group.ranks.empty() || ranks != 0;  // else a reader would take it for ranks 0 to size - 1
  uint32_t number = 0;
  GroupSlot* slot = has_ranks ? take_slot(&number) : nullptr;
  if (slot == nullptr) {
    header().groups_lost.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  slot->name = name;
  slot->description = description;
  slot->device = device;
  slot->ranks = ranks;
  slot->size = group.size;
  slot->rank = group.rank;
  slot->generation = group.generation;
  slot->is_late = group.is_late ? 1 : 0;
  slot->made_ns = now_ns();
  slot->is_there.store(1, std::memory_order_release);
  if (life_of(number) == 0 && place_of(number) == header().groups.load(std::memory_order_relaxed)) {
    header().groups.store(place_of(number) + 1, std::memory_order_release);
  }
  look_at_clocks();
  return number;
}

GroupSlot* Ring::take_slot(uint32_t* group) {
  const uint32_t unused = header().groups.load(std::memory_order_relaxed);
  if (unused < header().group_capacity) {
    *group = unused;
    return new (&slot_at(unused)) GroupSlot();
  }
  if (left_.empty()) return nullptr;
  const uint32_t before = left_.front();
  left_.pop_front();
  *group = before + kMostGroups;  // the next life, at the same place
  GroupSlot& slot = slot_at(place_of(before));
  slot.is_there.store(0, std::memory_order_relaxed);
  slot.life.store(life_of(*group), std::memory_order_relaxed);  // entries of the one before leave no more marks here
  fence(std::memory_order_release);
  for (auto* mark : {&slot.left, &slot.issued, &slot.started, &slot.completed, &slot.requests}) {
    mark->store(0, std::memory_order_relaxed);
  }
  return &slot;
}

GroupSlot& Ring::live(uint32_t group) const {
  GroupSlot& slot = slot_at(place_of(group));
  return slot.life.load(std::memory_order_relaxed) == life_of(group) ? slot : slot_at(0);
}

void Ring::describe_group(uint32_t group, std::string_view description) {
  if (group == 0) return;
  const Text text = intern(description);
  live(group).description.store(text, std::memory_order_relaxed);
}

void Ring::leave_group(uint32_t group) {
  if (group == 0 || is_foreign()) return;
  const std::lock_guard lock(mutex_);
  GroupSlot& slot = live(group);
  if (&slot != &slot_at(0) && slot.left.exchange(1, std::memory_order_release) == 0) left_.push_back(group);
}

// --- entries

Entry Ring::begin(const Issue& issue, const Sizes& sizes, int64_t now) {
  Header& h = header();
  const uint64_t index = h.next.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots_[index % capacity_];
  uint64_t before = slot.version.load(std::memory_order_relaxed);
  const uint64_t phase = before % 4;
  // Somebody is at work in it, and may have lost the processor: an operation does not wait for its record.
  if (phase == kWriting || phase == kUpdating ||
      !slot.version.compare_exchange_strong(before, 4 * index + kWriting, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
    h.lost.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  slot.version_behind.store(0, std::memory_order_relaxed);  // for whoever copies the file without asking
  fence(std::memory_order_release);
  slot.issued_ns = now;
  slot.started_ns.store(issue.starts_now ? now : 0, std::memory_order_relaxed);
  slot.ended_ns.store(0, std::memory_order_relaxed);
  slot.group = issue.group;
  slot.sequence.store(issue.sequence, std::memory_order_relaxed);
  slot.site = issue.site;
  slot.stack = issue.stack;
  slot.error.store(0, std::memory_order_relaxed);
  slot.timeout_ms = issue.timeout_ms;
  slot.thread = thread_id();
  slot.state.store(issue.starts_now ? State::kRunning : State::kIssued, std::memory_order_relaxed);
  slot.flags = static_cast<uint16_t>(issue.flags | (sizes.was_cut() ? kSizesCut : 0));
  slot.kind = issue.kind;
  slot.reduction = issue.reduction;
  slot.sizes_used = static_cast<uint8_t>(sizes.used());
  slot.root = issue.root;
  slot.peer = issue.peer;
  slot.tag = issue.tag;
  slot.bytes = issue.bytes;
  slot.stream = issue.stream;
  // Readers tell equal signatures by their bytes.
  std::memcpy(slot.sizes, sizes.data(), sizes.used());
  std::memset(slot.sizes + sizes.used(), 0, kSizesBytes - sizes.used());
  const uint64_t whole = 4 * index + kWhole;
  slot.version_behind.store(whole, std::memory_order_relaxed);
  slot.version.store(whole, std::memory_order_release);
  if ((issue.flags & kPointToPoint) == 0) {
    GroupSlot& group = live(issue.group);
    group.issued.store(issue.sequence, std::memory_order_relaxed);
    if (issue.starts_now) group.started.store(issue.sequence, std::memory_order_relaxed);
  }
  return Entry(this, &slot, whole);
}

bool Entry::lock() const {
  if (slot_ == nullptr || ring_->is_foreign()) return false;
  for (int i = 0; i < kUpdateTries; ++i) {
    uint64_t seen = version_;
    if (slot_->version.compare_exchange_weak(seen, version_ - kWhole + kUpdating, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      return true;
    }
    if (seen != version_ && seen != version_ - kWhole + kUpdating) return false;
  }
  return false;
}

void Entry::unlock() const { slot_->version.store(version_, std::memory_order_release); }

void Entry::returned() const {
  if (!lock()) return;
  slot_->flags = static_cast<uint16_t>(slot_->flags & ~kInCall);
  unlock();
}

void Entry::give_up() const {
  if (!lock()) return;
  slot_->flags |= kNoCompletion;
  unlock();
}

void Entry::end(State state, int64_t ended_ns, std::string_view error) const {
  if (slot_ == nullptr || ring_->is_foreign()) return;
  const Text text = ring_->intern(error);
  if (!lock()) return;
  slot_->ended_ns.store(ended_ns, std::memory_order_relaxed);
  slot_->error.store(text, std::memory_order_relaxed);
  slot_->state.store(state, std::memory_order_relaxed);
  const uint32_t group = slot_->group;
  const uint32_t sequence = slot_->sequence.load(std::memory_order_relaxed);
  const bool counts = (slot_->flags & kPointToPoint) == 0 && state == State::kCompleted;
  unlock();
  if (counts) raise_to(ring_->live(group).completed, sequence);
}

// --- the end

uint32_t Ring::note_dump(std::string_view reason) {
  const Text text = intern(reason);
  Header& h = header();
  h.reason.store(text, std::memory_order_relaxed);
  h.reason_ns.store(now_ns(), std::memory_order_relaxed);
  look_at_clocks();
  return h.dumps.fetch_add(1, std::memory_order_acq_rel) + 1;
}

void Ring::note_signal(int signal) {
  header().reason_ns.store(now_ns(), std::memory_order_relaxed);
  header().signal.store(signal, std::memory_order_release);
}

void Ring::close() { header().closed.store(1, std::memory_order_release); }

bool Ring::has_trouble() const {
  return header().dumps.load(std::memory_order_acquire) != 0 || header().signal.load(std::memory_order_acquire) != 0;
}

Ring* process_ring() {
  Ring* ring = the_ring.load(std::memory_order_acquire);
  return ring != nullptr && !ring->is_foreign() ? ring : nullptr;
}

void set_process_ring(std::unique_ptr<Ring> ring) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<Ring>>();  // for ever: others may be writing to one
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(ring));
  the_ring.store(kept->back().get(), std::memory_order_release);
}

}  // namespace pycomms::recorder
