#include "nccl2/python/call_site.h"

#include "nccl2/python/frames.h"

// CPython's own headers come first: they define what Python.h leaves out.
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace pycomms::python {
namespace {

constexpr recorder::Text kInternal = 1;  // no text lies there
constexpr int kMostFrames = 64;          // of a stack; and how far a call site is looked for

// From the address of an instruction to the text of its line. Read without a lock; filled with the GIL, and never emptied:
// the code objects that it speaks of are kept, so that no other code gets their addresses.
class Lines {
 public:
  std::optional<recorder::Text> find(uintptr_t address) const {
    for (size_t i = place_of(address), tries = 0; tries < kProbes; i = (i + 1) % kSlots, ++tries) {
      const uintptr_t there = slots_[i].address.load(std::memory_order_acquire);
      if (there == address) return slots_[i].text.load(std::memory_order_relaxed);
      if (there == 0) return std::nullopt;
    }
    return std::nullopt;
  }

  // False when there is no room: the line is then looked up each time.
  bool add(uintptr_t address, recorder::Text text) {
    const std::lock_guard lock(mutex_);
    for (size_t i = place_of(address), tries = 0; tries < kProbes; i = (i + 1) % kSlots, ++tries) {
      const uintptr_t there = slots_[i].address.load(std::memory_order_relaxed);
      if (there == address) return true;
      if (there != 0) continue;
      slots_[i].text.store(text, std::memory_order_relaxed);
      slots_[i].address.store(address, std::memory_order_release);
      return true;
    }
    return false;
  }

 private:
  static constexpr size_t kSlots = 8192, kProbes = 16;
  static size_t place_of(uintptr_t address) { return (address >> 1) * 0x9E3779B97F4A7C15u >> 51; }
  static_assert(kSlots == size_t{1} << (64 - 51));

  struct Slot {
    std::atomic<uintptr_t> address{0};
    std::atomic<recorder::Text> text{0};
  };
  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;
};

// What is known of one ring; after a fork the child starts anew.
struct Known {
  explicit Known(const recorder::Ring& of) : ring(&of) {}
  const recorder::Ring* const ring;
  Lines lines;
  std::mutex mutex;
  std::unordered_map<uint64_t, recorder::Text> stacks;  // guarded by mutex; by the addresses of their frames
};

std::atomic<Known*> the_known{nullptr};

Known& known(const recorder::Ring& ring) {
  Known* seen = the_known.load(std::memory_order_acquire);
  if (seen != nullptr && seen->ring == &ring) return *seen;
  auto* made = new Known(ring);  // the one before leaks: another thread may be reading it
  if (the_known.compare_exchange_strong(seen, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *seen;
}

std::vector<std::string>& internal_folders() {
  static auto* folders = new std::vector<std::string>();
  return *folders;
}

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  const PyGILState_STATE state_;
};

struct Line {
  std::string text;
  bool is_internal = false;
};

std::string utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (bytes == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return {bytes, static_cast<size_t>(size)};
}

// With the GIL.
Line line_of(PyFrameObject* frame, PyCodeObject* code) {
  const std::string file = utf8(code->co_filename);
  Line line{file + ":" + std::to_string(PyFrame_GetLineNumber(frame)) + "\n" + utf8(code->co_name)};
  line.is_internal = file.rfind("<frozen ", 0) == 0;
  for (const std::string& folder : internal_folders()) line.is_internal |= file.rfind(folder, 0) == 0;
  return line;
}

// With the GIL: each frame of this thread, innermost first, as an owned reference. visit(frame, code) -> bool.
template <typename Visit>
void visit_frames(Visit visit) {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  bool goes_on = true;
  for (int i = 0; frame != nullptr; ++i) {
    if (goes_on && i < kMostFrames) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      goes_on = visit(frame, code);
      Py_DECREF(code);
    }
    PyFrameObject* next = goes_on ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = next;
  }
}

bool has_python() { return Py_IsInitialized() != 0 && PyGILState_GetThisThreadState() != nullptr; }

// Looks the lines up that the walk without the GIL did not know, down to the first of the user's.
recorder::Text learn(recorder::Ring& ring, Lines& lines) {
  const Gil gil;
  recorder::Text site = 0;
  visit_frames([&](PyFrameObject* frame, PyCodeObject* code) {
    const Line line = line_of(frame, code);
    if (!line.is_internal) site = ring.intern(line.text);
    const uintptr_t address = address_of(frame, code);
    if (address != 0 && lines.add(address, line.is_internal ? kInternal : site)) Py_INCREF(code);
    return line.is_internal;
  });
  return site;
}

recorder::Text learn_stack(recorder::Ring& ring) {
  const Gil gil;
  std::string text;
  visit_frames([&](PyFrameObject* frame, PyCodeObject* code) {
    if (const Line line = line_of(frame, code); !line.is_internal) text += (text.empty() ? "" : "\n") + line.text;
    if (PYCOMMS_WALKS_FRAMES != 0) Py_INCREF(code);  // its addresses stand for this stack from now on
    return true;
  });
  return ring.intern(text);
}

}  // namespace

void set_internal_folders(std::vector<std::string> folders) { internal_folders() = std::move(folders); }

recorder::Text call_site(recorder::Ring& ring) {
  if (!has_python()) return 0;
  Lines& lines = known(ring).lines;
  recorder::Text site = 0;
  bool is_known = PYCOMMS_WALKS_FRAMES != 0;
  int depth = 0;
  walk_frames([&](uintptr_t address) {
    const std::optional<recorder::Text> line = lines.find(address);
    is_known = line.has_value();
    site = line.value_or(0);
    return is_known && site == kInternal && ++depth < kMostFrames;
  });
  if (is_known) return site == kInternal ? 0 : site;
  return learn(ring, lines);
}

recorder::Text call_stack(recorder::Ring& ring) {
  if (!has_python()) return 0;
  uint64_t hash = 0;
  int depth = 0;
  walk_frames([&](uintptr_t address) {
    hash = (hash ^ address) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    return ++depth < kMostFrames;
  });
  if (depth == 0) return learn_stack(ring);
  Known& seen = known(ring);
  {
    const std::lock_guard lock(seen.mutex);
    if (const auto there = seen.stacks.find(hash); there != seen.stacks.end()) return there->second;
  }
  const recorder::Text stack = learn_stack(ring);
  const std::lock_guard lock(seen.mutex);
  seen.stacks.emplace(hash, stack);
  return stack;
}

}  // namespace pycomms::python
