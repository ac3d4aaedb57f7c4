#include "hostccl/windows/memory.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "hostccl/kernels/kernels.h"

namespace hostccl {
namespace {

using nccl_abi::DataType;

// Calls visit(T()) for a type that can be updated in one step. False: it is none.
template <typename Visit>
bool with_type(DataType type, Visit&& visit) {
  switch (type) {
    case nccl_abi::kInt32:
      visit(int32_t{});
      return true;
    case nccl_abi::kUint32:
      visit(uint32_t{});
      return true;
    case nccl_abi::kInt64:
      visit(int64_t{});
      return true;
    case nccl_abi::kUint64:
      visit(uint64_t{});
      return true;
    case nccl_abi::kFloat32:
      visit(float{});
      return true;
    case nccl_abi::kFloat64:
      visit(double{});
      return true;
    case nccl_abi::kInt8:
    case nccl_abi::kUint8:
    case nccl_abi::kInt16:
    case nccl_abi::kUint16:
    case nccl_abi::kFloat16:
    case nccl_abi::kBfloat16:
    case nccl_abi::kFloat8e4m3:
    case nccl_abi::kFloat8e5m2:
    case nccl_abi::kComplex64:
    case nccl_abi::kComplex128:
    case nccl_abi::kBool:
      break;
  }
  return false;
}

const char* name_of(WindowOp op) {
  switch (op) {
    case WindowOp::kSum:
      return "sum";
    case WindowOp::kProd:
      return "prod";
    case WindowOp::kMax:
      return "max";
    case WindowOp::kMin:
      return "min";
    case WindowOp::kBitAnd:
      return "band";
    case WindowOp::kBitOr:
      return "bor";
    case WindowOp::kBitXor:
      return "bxor";
    case WindowOp::kReplace:
      return "replace";
    case WindowOp::kFetch:
      return "fetch";
  }
  return "unknown";
}

bool is_bitwise(WindowOp op) { return op == WindowOp::kBitAnd || op == WindowOp::kBitOr || op == WindowOp::kBitXor; }

// Unsigned, so that an overflow wraps.
template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <typename T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

// A NaN on either side is the result, as in torch.
template <typename T>
T combine(WindowOp op, T old, T operand) {
  switch (op) {
    case WindowOp::kSum:
      return sum(old, operand);
    case WindowOp::kProd:
      return product(old, operand);
    case WindowOp::kMax:
      return is_nan(operand) || (!is_nan(old) && operand > old) ? operand : old;
    case WindowOp::kMin:
      return is_nan(operand) || (!is_nan(old) && operand < old) ? operand : old;
    case WindowOp::kReplace:
      return operand;
    case WindowOp::kFetch:
      return old;
    case WindowOp::kBitAnd:
    case WindowOp::kBitOr:
    case WindowOp::kBitXor:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == WindowOp::kBitAnd) return old & operand;
    if (op == WindowOp::kBitOr) return old | operand;
    return old ^ operand;
  }
  return old;
}

template <typename T>
T update_one(std::atomic_ref<T> target, WindowOp op, T operand) {
  if (op == WindowOp::kFetch) return target.load(std::memory_order_seq_cst);
  if (op == WindowOp::kReplace) return target.exchange(operand, std::memory_order_seq_cst);
  if constexpr (std::is_integral_v<T>) {
    if (op == WindowOp::kSum) return target.fetch_add(operand, std::memory_order_seq_cst);
    if (op == WindowOp::kBitAnd) return target.fetch_and(operand, std::memory_order_seq_cst);
    if (op == WindowOp::kBitOr) return target.fetch_or(operand, std::memory_order_seq_cst);
    if (op == WindowOp::kBitXor) return target.fetch_xor(operand, std::memory_order_seq_cst);
  }
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, combine(op, old, operand), std::memory_order_seq_cst)) {
  }
  return old;
}

// What is too large to be found in a cache again is written past it.
void copy_any(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes >= kTooLargeForCache) {
    copy_streaming(to, from, bytes);
  } else {
    hostccl::copy(to, from, bytes);
  }
}

// What is one element is stored and loaded in one piece, so that whoever reads it never sees half of it.
template <typename T>
bool is_one(const void* at, size_t bytes) {
  return bytes == sizeof(T) && reinterpret_cast<uintptr_t>(at) % sizeof(T) == 0;
}

template <typename T>
bool store_one(std::byte* to, const std::byte* from, size_t bytes) {
  if (!is_one<T>(to, bytes)) return false;
  T value;
  std::memcpy(&value, from, sizeof(T));
  std::atomic_ref<T>(*reinterpret_cast<T*>(to)).store(value, std::memory_order_release);
  return true;
}

template <typename T>
bool load_one(std::byte* to, std::byte* from, size_t bytes) {
  if (!is_one<T>(from, bytes)) return false;
  const T value = std::atomic_ref<T>(*reinterpret_cast<T*>(from)).load(std::memory_order_acquire);
  std::memcpy(to, &value, sizeof(T));
  return true;
}

}  // namespace

std::string check_pieces(const WindowMemory& memory, std::span<const WindowPiece> pieces) {
  for (const WindowPiece& piece : pieces) {
    if (piece.offset <= memory.bytes && piece.bytes <= memory.bytes - piece.offset) continue;
    return std::to_string(piece.bytes) + " bytes at offset " + std::to_string(piece.offset) + " are not inside its " +
           std::to_string(memory.bytes) + " bytes";
  }
  return {};
}

std::string check_elements(const WindowMemory& memory, std::span<const WindowPiece> pieces, DataType type) {
  const size_t size = element_size(type);
  if (const size_t over = reinterpret_cast<uintptr_t>(memory.data) % size; over != 0 && !pieces.empty()) {
    return "its memory begins " + std::to_string(over) + " bytes behind a multiple of " + std::to_string(size) +
           ", and only at multiples of its size can a " + type_name(type) + " be updated in one step";
  }
  for (const WindowPiece& piece : pieces) {
    if (piece.offset % size == 0 && piece.bytes % size == 0) continue;
    return std::to_string(piece.bytes) + " bytes at offset " + std::to_string(piece.offset) +
           " are not whole elements of " + type_name(type);
  }
  return {};
}

std::string check_update(DataType type, WindowOp op) {
  if (op < WindowOp::kSum || op > WindowOp::kFetch)
    return "operation " + std::to_string(static_cast<int>(op)) + " is unknown";
  std::string problem = std::string("elements of ") + type_name(type) +
                        " cannot be updated in one step, expected int32, int64, uint32, uint64, float32 or float64";
  with_type(type, [&](auto zero) {
    problem.clear();
    if (is_bitwise(op) && !std::is_integral_v<decltype(zero)>) {
      problem = std::string(name_of(op)) + " has no meaning for " + type_name(type);
    }
  });
  return problem;
}

std::string check_signal(const WindowMemory& memory, const WindowSignal& signal) {
  if (signal.slot < 0 || signal.slot >= memory.layout.slots()) {
    return "slot is " + std::to_string(signal.slot) + ", but the window has slots 0 to " +
           std::to_string(memory.layout.slots() - 1);
  }
  if (signal.change != SignalChange::kAdd && signal.change != SignalChange::kSet) {
    return "change of a signal " + std::to_string(static_cast<int>(signal.change)) + " is unknown";
  }
  return {};
}

void put_piece(const WindowMemory& memory, const WindowPiece& piece, const std::byte* source) {
  std::byte* const to = memory.data + piece.offset;
  if (store_one<uint64_t>(to, source, piece.bytes) || store_one<uint32_t>(to, source, piece.bytes) ||
      store_one<uint16_t>(to, source, piece.bytes)) {
    return;
  }
  copy_any(to, source, piece.bytes);
}

void get_piece(const WindowMemory& memory, const WindowPiece& piece, std::byte* destination) {
  std::byte* const from = memory.data + piece.offset;
  if (load_one<uint64_t>(destination, from, piece.bytes) || load_one<uint32_t>(destination, from, piece.bytes) ||
      load_one<uint16_t>(destination, from, piece.bytes)) {
    return;
  }
  copy_any(destination, from, piece.bytes);
}

void update_piece(const WindowMemory& memory, const WindowPiece& piece, DataType type, WindowOp op,
                  const std::byte* operands, std::byte* old) {
  with_type(type, [&]<typename T>(T) {
    T* const target = reinterpret_cast<T*>(memory.data + piece.offset);
    for (size_t i = 0; i < piece.bytes / sizeof(T); ++i) {
      T operand{};
      if (op != WindowOp::kFetch) std::memcpy(&operand, operands + i * sizeof(T), sizeof(T));
      const T before = update_one(std::atomic_ref<T>(target[i]), op, operand);
      if (old != nullptr) std::memcpy(old + i * sizeof(T), &before, sizeof(T));
    }
  });
}

void compare_swap(const WindowMemory& memory, uint64_t offset, DataType type, const void* expected, const void* desired,
                  void* old) {
  // By bits: what a float's comparison says of zeros and NaNs is of no use here.
  const auto exchange = [&]<typename Bits>(Bits) {
    Bits before, after;
    std::memcpy(&before, expected, sizeof(Bits));
    std::memcpy(&after, desired, sizeof(Bits));
    std::atomic_ref<Bits> target(*reinterpret_cast<Bits*>(memory.data + offset));
    target.compare_exchange_strong(before, after, std::memory_order_seq_cst);
    std::memcpy(old, &before, sizeof(Bits));
  };
  if (element_size(type) == sizeof(uint64_t)) {
    exchange(uint64_t{});
  } else {
    exchange(uint32_t{});
  }
}

void tell_state(const WindowMemory& memory, int rank, WindowState state) {
  memory.layout.guest(memory.block, rank).itself.store(state, std::memory_order_seq_cst);
  wake(memory.control().signalled);
}

void signal(const WindowMemory& memory, int source, const WindowSignal& signal) {
  std::atomic<int64_t>& cell = memory.layout.signal(memory.block, source, signal.slot);
  if (signal.change == SignalChange::kAdd) {
    cell.fetch_add(signal.value, std::memory_order_seq_cst);
  } else {
    cell.store(signal.value, std::memory_order_seq_cst);
  }
  wake(memory.control().signalled);
}

}  // namespace hostccl
