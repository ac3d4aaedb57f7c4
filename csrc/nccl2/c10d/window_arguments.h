// Arguments of a window's methods as Python gives them: what is wrong with one is told by method, argument, what was given and
// what was expected, where pybind11 would say that no overload fits.
// Needs the GIL. Must not know: what a window does.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <vector>

#include "nccl2/c10d/window.h"

namespace pycomms::c10d_backend {

// One element as the engine sees it.
union Element {
  int32_t i32;
  uint32_t u32;
  int64_t i64;
  uint64_t u64;
  float f32;
  double f64;
};

Element to_element(const TensorWindow& window, const char* op, const char* name, pybind11::handle value);
PyObject* to_python(const TensorWindow& window, const Element& element);

// Also an array of another library, over the same memory.
at::Tensor to_tensor(const char* op, const char* name, pybind11::handle value);
std::vector<at::Tensor> to_tensors(const char* op, const char* name, pybind11::handle values);
Place to_place(const char* op, pybind11::handle offset);
std::vector<Place> to_places(const char* op, pybind11::handle offsets);

int64_t to_int64(const char* op, const char* name, pybind11::handle value);
// What no int holds is refused here, and what no rank or slot is by the call itself.
int to_peer(const TensorWindow& window, const char* op, pybind11::handle value);
std::optional<int> to_peer_or_none(const TensorWindow& window, const char* op, pybind11::handle value);
std::vector<int> to_peers(const TensorWindow& window, const char* op, pybind11::handle values);
int to_slot(const TensorWindow& window, const char* op, const char* name, pybind11::handle value);
std::optional<int> to_signal(const TensorWindow& window, const char* op, pybind11::handle value);

bool to_flag(const char* op, const char* name, pybind11::handle value);
hostccl::WindowOp to_window_op(const char* op, pybind11::handle value, bool can_fetch = false);
hostccl::SignalChange to_change(const char* op, pybind11::handle value);
TensorWindow::How to_how(const char* op, pybind11::handle is_async, pybind11::handle timeout);
TensorWindow::How to_how(const char* op, pybind11::handle timeout);

}  // namespace pycomms::c10d_backend
