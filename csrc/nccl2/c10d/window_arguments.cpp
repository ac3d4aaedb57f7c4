#include "nccl2/c10d/window_arguments.h"

#include <torch/csrc/autograd/python_variable.h>

#include <limits>
#include <map>
#include <string_view>

#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/python_timeout.h"

namespace py = pybind11;

namespace pycomms::c10d_backend {
namespace {

std::string text_of(py::handle value) { return py::repr(value).cast<std::string>(); }

[[noreturn]] void throw_wrong_type(const char* op, const char* name, py::handle value, const char* expected) {
  throw_type_error(op, std::string(name) + " is " + text_of(value) + ", expected " + expected);
}

// None: it is an integer that no T holds.
template <typename T>
std::optional<T> to_integer(const char* op, const char* name, py::handle value) {
  py::object index = py::reinterpret_borrow<py::object>(value);
  if (!PyLong_CheckExact(value.ptr())) {
    index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!index) {
      PyErr_Clear();
      throw_wrong_type(op, name, value, "an integer");
    }
  }
  using Wide = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
  const Wide wide = std::is_signed_v<T> ? static_cast<Wide>(PyLong_AsLongLong(index.ptr()))
                                        : static_cast<Wide>(PyLong_AsUnsignedLongLong(index.ptr()));
  const bool may_be_wrong = wide == static_cast<Wide>(-1);
  if ((may_be_wrong && PyErr_Occurred() != nullptr) || static_cast<Wide>(static_cast<T>(wide)) != wide) {
    PyErr_Clear();
    return std::nullopt;
  }
  return static_cast<T>(wide);
}

template <typename T>
T to_integer_of(const char* op, const char* name, py::handle value, const char* type) {
  if (const std::optional<T> number = to_integer<T>(op, name, value)) [[likely]]
    return *number;
  throw_value_error(op, std::string(name) + " is " + text_of(value) + ", which is no " + type + ": expected " +
                            std::to_string(std::numeric_limits<T>::min()) + " to " +
                            std::to_string(std::numeric_limits<T>::max()));
}

double to_double(const char* op, const char* name, py::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw_wrong_type(op, name, value, "a number");
  }
  return number;
}

Place to_place_of(const char* op, const char* name, py::handle offset) {
  if (THPVariable_Check(offset.ptr())) return THPVariable_Unpack(offset.ptr());
  return to_int64(op, name, offset);
}

}  // namespace

Element to_element(const TensorWindow& window, const char* op, const char* name, py::handle value) {
  Element element{};
  switch (window.type()) {
    case nccl_abi::kInt32:
      element.i32 = to_integer_of<int32_t>(op, name, value, "int32");
      return element;
    case nccl_abi::kUint32:
      element.u32 = to_integer_of<uint32_t>(op, name, value, "uint32");
      return element;
    case nccl_abi::kInt64:
      element.i64 = to_integer_of<int64_t>(op, name, value, "int64");
      return element;
    case nccl_abi::kUint64:
      element.u64 = to_integer_of<uint64_t>(op, name, value, "uint64");
      return element;
    case nccl_abi::kFloat32:
      element.f32 = static_cast<float>(to_double(op, name, value));
      return element;
    case nccl_abi::kFloat64:
      element.f64 = to_double(op, name, value);
      return element;
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
  throw_type_error(op, std::string("the window holds ") + c10::toString(window.local().scalar_type()) +
                           ", expected int32, int64, uint32, uint64, float32 or float64");
}

PyObject* to_python(const TensorWindow& window, const Element& element) {
  switch (window.type()) {
    case nccl_abi::kInt32:
      return PyLong_FromLong(element.i32);
    case nccl_abi::kUint32:
      return PyLong_FromUnsignedLong(element.u32);
    case nccl_abi::kInt64:
      return PyLong_FromLongLong(element.i64);
    case nccl_abi::kUint64:
      return PyLong_FromUnsignedLongLong(element.u64);
    case nccl_abi::kFloat32:
      return PyFloat_FromDouble(static_cast<double>(element.f32));
    case nccl_abi::kFloat64:
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
  return PyFloat_FromDouble(element.f64);  // to_element() has refused what has no other type
}

at::Tensor to_tensor(const char* op, const char* name, py::handle value) {
  if (THPVariable_Check(value.ptr())) [[likely]]
    return THPVariable_Unpack(value.ptr());
  try {
    const py::object tensor =
        py::module_::import("pycomms.rma._memory").attr("as_tensor")(value, std::string_view(name).starts_with("dst"));
    return THPVariable_Unpack(tensor.ptr());
  } catch (py::error_already_set& error) {
    const std::string what = std::string(name) + ": " + py::str(error.value()).cast<std::string>();
    if (error.matches(PyExc_ValueError)) throw_value_error(op, what);
    throw_type_error(op, what);
  }
}

namespace {

py::sequence to_sequence(const char* op, const char* name, py::handle values, const char* expected) {
  if (!py::isinstance<py::sequence>(values) || py::isinstance<py::str>(values)) {
    throw_wrong_type(op, name, values, expected);
  }
  return py::reinterpret_borrow<py::sequence>(values);
}

}  // namespace

std::vector<at::Tensor> to_tensors(const char* op, const char* name, py::handle values) {
  std::vector<at::Tensor> tensors;
  for (const py::handle value : to_sequence(op, name, values, "a sequence of tensors")) {
    tensors.push_back(to_tensor(op, (std::string(name) + "[" + std::to_string(tensors.size()) + "]").c_str(), value));
  }
  return tensors;
}

Place to_place(const char* op, py::handle offset) { return to_place_of(op, "offset", offset); }

std::vector<Place> to_places(const char* op, py::handle offsets) {
  std::vector<Place> places;
  for (const py::handle offset : to_sequence(op, "offsets", offsets, "a sequence of integers or views")) {
    places.push_back(to_place_of(op, ("offsets[" + std::to_string(places.size()) + "]").c_str(), offset));
  }
  return places;
}

int64_t to_int64(const char* op, const char* name, py::handle value) {
  if (const std::optional<int64_t> number = to_integer<int64_t>(op, name, value)) [[likely]]
    return *number;
  throw_value_error(op, std::string(name) + " is " + text_of(value) + ", expected an integer of 64 bits");
}

int to_peer(const TensorWindow& window, const char* op, py::handle value) {
  if (const std::optional<int> peer = to_integer<int>(op, "peer", value)) [[likely]]
    return *peer;
  throw_value_error(
      op, "peer is " + text_of(value) + ", but the group has ranks 0 to " + std::to_string(window.size() - 1));
}

std::optional<int> to_peer_or_none(const TensorWindow& window, const char* op, py::handle value) {
  return value.is_none() ? std::nullopt : std::optional(to_peer(window, op, value));
}

std::vector<int> to_peers(const TensorWindow& window, const char* op, py::handle values) {
  std::vector<int> peers;
  for (const py::handle value : to_sequence(op, "peers", values, "a sequence of ranks")) {
    peers.push_back(to_peer(window, op, value));
  }
  return peers;
}

int to_slot(const TensorWindow& window, const char* op, const char* name, py::handle value) {
  if (const std::optional<int> slot = to_integer<int>(op, name, value)) [[likely]]
    return *slot;
  throw_value_error(op, std::string(name) + " is " + text_of(value) + ", but the window has slots 0 to " +
                            std::to_string(window.slots() - 1));
}

std::optional<int> to_signal(const TensorWindow& window, const char* op, py::handle value) {
  return value.is_none() ? std::nullopt : std::optional(to_slot(window, op, "signal", value));
}

bool to_flag(const char* op, const char* name, py::handle value) {
  if (value.ptr() == Py_False) [[likely]]
    return false;
  if (value.ptr() == Py_True) return true;
  py::detail::make_caster<bool> caster;
  if (value.is_none() || !caster.load(value, true)) throw_wrong_type(op, name, value, "a bool");
  return py::detail::cast_op<bool>(caster);
}

hostccl::WindowOp to_window_op(const char* op, py::handle value, bool can_fetch) {
  using hostccl::WindowOp;
  static const std::map<std::string, WindowOp> kNames{{"sum", WindowOp::kSum},     {"prod", WindowOp::kProd},
                                                      {"max", WindowOp::kMax},     {"min", WindowOp::kMin},
                                                      {"band", WindowOp::kBitAnd}, {"bor", WindowOp::kBitOr},
                                                      {"bxor", WindowOp::kBitXor}, {"replace", WindowOp::kReplace}};
  constexpr char kExpected[] = "sum, prod, max, min, band, bor, bxor or replace";
  constexpr char kOrFetch[] = "sum, prod, max, min, band, bor, bxor, replace or fetch";
  const char* const expected = can_fetch ? kOrFetch : kExpected;
  if (!py::isinstance<py::str>(value)) throw_wrong_type(op, "op", value, expected);
  const auto name = value.cast<std::string>();
  if (can_fetch && name == "fetch") return WindowOp::kFetch;
  const auto found = kNames.find(name);
  if (found != kNames.end()) return found->second;
  throw_value_error(op, "op is '" + name + "', expected " + expected);
}

hostccl::SignalChange to_change(const char* op, py::handle value) {
  if (!py::isinstance<py::str>(value)) throw_wrong_type(op, "op", value, "add or set");
  const auto name = value.cast<std::string>();
  if (name == "add") return hostccl::SignalChange::kAdd;
  if (name == "set") return hostccl::SignalChange::kSet;
  throw_value_error(op, "op is '" + name + "', expected add or set");
}

TensorWindow::How to_how(const char* op, py::handle timeout) {
  if (timeout.is_none()) [[likely]]
    return {};
  constexpr char kExpected[] = "None or a timedelta of at least 0";
  py::detail::make_caster<Timeout> caster;
  if (!caster.load(timeout, true)) throw_wrong_type(op, "timeout", timeout, kExpected);
  const auto limit = py::detail::cast_op<Timeout&>(caster).limit;
  if (limit->count() < 0) throw_value_error(op, "timeout is " + text_of(timeout) + ", expected " + kExpected);
  return {false, limit};
}

TensorWindow::How to_how(const char* op, py::handle is_async, py::handle timeout) {
  TensorWindow::How how = to_how(op, timeout);
  how.is_async = to_flag(op, "async_op", is_async);
  return how;
}

}  // namespace pycomms::c10d_backend
