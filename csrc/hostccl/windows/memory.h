// A window's memory as one process maps it, and what is done to it: by a rank of the same host, or by the service of its owner
// on behalf of a rank elsewhere. The order of stores, and what is atomic, is decided here and nowhere else.
//
// Any thread. Nothing waits. Must not know: who asked, connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/shared_memory.h"
#include "hostccl/hostccl_windows.h"
#include "hostccl/windows/control.h"

namespace hostccl {

struct WindowMemory {
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::byte* block = nullptr;  // the WindowControl and what belongs to it
  WindowLayout layout{0, 0};
  // What keeps the two mapped; empty for memory that is the caller's.
  std::shared_ptr<pycomms::SharedMapping> data_hold;
  std::shared_ptr<pycomms::SharedMapping> block_hold;

  WindowControl& control() const { return layout.control(block); }
  bool is_closed() const { return control().state.load(std::memory_order_acquire) == WindowState::kClosed; }
  // What `rank` has told of its own part of the window.
  WindowState told_by(int rank) const { return layout.guest(block, rank).itself.load(std::memory_order_seq_cst); }
};

// Empty when every piece is inside the window; otherwise what is wrong, in words.
std::string check_pieces(const WindowMemory& memory, std::span<const WindowPiece> pieces);
// And when each is made of whole elements, which can be updated in one step where they lie; that is for who can see them.
std::string check_elements(const WindowMemory& memory, std::span<const WindowPiece> pieces, DataType type);
// Empty when the type can be updated so.
std::string check_update(DataType type, WindowOp op);
std::string check_signal(const WindowMemory& memory, const WindowSignal& signal);

// Pieces have been checked.
void put_piece(const WindowMemory& memory, const WindowPiece& piece, const std::byte* source);
void get_piece(const WindowMemory& memory, const WindowPiece& piece, std::byte* destination);
// old: null when it is not wanted.
void update_piece(const WindowMemory& memory, const WindowPiece& piece, DataType type, WindowOp op,
                  const std::byte* operands, std::byte* old);
void compare_swap(const WindowMemory& memory, uint64_t offset, DataType type, const void* expected, const void* desired,
                  void* old);
// `rank` tells the owner what has become of its own part of the window; wakes it if it waits.
void tell_state(const WindowMemory& memory, int rank, WindowState state);
// Publishes all that this thread has done to the memory before, and wakes the owner if it waits for signals.
void signal(const WindowMemory& memory, int source, const WindowSignal& signal);

}  // namespace hostccl
