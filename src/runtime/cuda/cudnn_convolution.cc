// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn_convolution.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <algorithm>

#include "runtime/arguments.h"
#include "runtime/cuda/cudnn_descriptors.h"
#include "runtime/cuda/cudnn_handles.h"
#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

constexpr int kLastAlgorithm = 7;
// Statuses from here to the internal errors report that there is no such algorithm.
constexpr int kBadParameter = 2000;
constexpr int kInternalError = 4000;

/*! \brief Return the tensors at the beginning of the arguments. */
std::vector<ffi::TensorView> LeadingTensors(const ffi::PackedArgs& args) {
  std::vector<ffi::TensorView> tensors;
  for (int i = 0; i < args.size(); ++i) {
    const auto tensor = args[i].try_cast<ffi::TensorView>();
    if (!tensor.has_value()) break;
    tensors.push_back(*tensor);
  }
  return tensors;
}

std::vector<int64_t> Numbers(const ffi::PackedArgs& args) {
  std::vector<int64_t> numbers;
  for (int i = 0; i < args.size(); ++i) numbers.push_back(args[i].cast<int64_t>());
  return numbers;
}

void CheckTensor(const ffi::TensorView& tensor, size_t index, const ffi::TensorView& first,
                 const std::vector<int64_t>& shape, DLDataType dtype) {
  TVM_IOS_REQUIRE(tensor.device().device_type == kDLCUDA &&
                      tensor.device().device_id == first.device().device_id,
                  ValueError)
      << "tensor " << index << " of the convolution is not on the CUDA device of the first";
  TVM_IOS_REQUIRE(
      tensor.dtype() == dtype && tensor.IsContiguous() &&
          std::equal(tensor.shape().begin(), tensor.shape().end(), shape.begin(), shape.end()),
      ValueError)
      << "tensor " << index << " of the convolution has another type or shape than the problem";
}

/*! \brief The tensors of one call. */
class Operands {
 public:
  Operands(const ConvolutionProblem& problem, std::vector<ffi::TensorView> tensors)
      : problem_(problem), tensors_(std::move(tensors)) {
    const std::vector<std::vector<int64_t>> shapes = problem.Shapes();
    num_tensors_ = shapes.size();
    TVM_IOS_REQUIRE(tensors_.size() == num_tensors_ || tensors_.size() == num_tensors_ + 1,
                    TypeError)
        << "this convolution takes " << num_tensors_ << " tensors and perhaps a workspace, not "
        << tensors_.size();
    for (size_t i = 0; i < num_tensors_; ++i) {
      CheckTensor(tensors_[i], i, tensors_[0], shapes[i], problem.dtype());
    }
    if (tensors_.size() > num_tensors_) {
      CheckTensor(workspace(), num_tensors_, tensors_[0], {workspace().numel()}, {kDLUInt, 8, 1});
    }
  }

  int device_id() const { return tensors_[0].device().device_id; }
  const void* x() const { return tensors_[0].data_ptr(); }
  const void* w() const { return tensors_[1].data_ptr(); }
  const void* bias() const { return tensors_[2].data_ptr(); }
  /*!
   * \brief The tensor z, or y if there is none: cuDNN requires a pointer, and multiplies by zero.
   */
  const void* z() const { return problem_.residual ? tensors_[3].data_ptr() : y(); }
  void* y() const { return tensors_[num_tensors_ - 1].data_ptr(); }
  void* workspace_data() const { return has_workspace() ? workspace().data_ptr() : nullptr; }
  size_t workspace_bytes() const {
    return has_workspace() ? static_cast<size_t>(workspace().numel()) : 0;
  }

 private:
  bool has_workspace() const { return tensors_.size() > num_tensors_; }
  const ffi::TensorView& workspace() const { return tensors_[num_tensors_]; }

  const ConvolutionProblem& problem_;
  std::vector<ffi::TensorView> tensors_;
  size_t num_tensors_;
};

CudnnContext CurrentHandle(int device_id) { return HandleFor(device_id, CurrentStream(device_id)); }

void Issue(const Convolution& of, const Operands& operands, int algorithm) {
  constexpr float kOne = 1.0F, kZero = 0.0F;
  const Cudnn& cudnn = Cudnn::Get();
  const ContextScope context(operands.device_id());
  CudnnContext handle = CurrentHandle(operands.device_id());
  if (!of.problem.has_bias()) {
    cudnn.cudnnConvolutionForward(handle, &kOne, of.x.get(), operands.x(), of.w.get(), operands.w(),
                                  of.convolution.get(), algorithm, operands.workspace_data(),
                                  operands.workspace_bytes(), &kZero, of.y.get(), operands.y());
    return;
  }
  cudnn.cudnnConvolutionBiasActivationForward(
      handle, &kOne, of.x.get(), operands.x(), of.w.get(), operands.w(), of.convolution.get(),
      algorithm, operands.workspace_data(), operands.workspace_bytes(),
      of.problem.residual ? &kOne : &kZero, of.y.get(), operands.z(), of.bias.get(),
      operands.bias(), of.activation.get(), of.y.get(), operands.y());
}

/*! \brief Return all algorithms that cuDNN reports, in its order. */
std::vector<CudnnAlgorithmHint> Hints(CudnnContext handle, const Convolution& of) {
  const Cudnn& cudnn = Cudnn::Get();
  int most = 0;
  cudnn.cudnnGetConvolutionForwardAlgorithmMaxCount(handle, &most);
  std::vector<CudnnAlgorithmHint> hints(static_cast<size_t>(most));
  int found = 0;
  cudnn.cudnnGetConvolutionForwardAlgorithm(handle, of.x.get(), of.w.get(), of.convolution.get(),
                                            of.y.get(), most, &found, hints.data());
  hints.resize(static_cast<size_t>(found));
  return hints;
}

bool IsUsable(const CudnnAlgorithmHint& hint, const ConvolutionProblem& problem) {
  if (hint.status != 0 || hint.determinism != kCudnnDeterministic) return false;
  if (hint.math == kCudnnMathWithConversion) return false;
  if (problem.precision == Precision::kFloat32 && hint.math == kCudnnTensorOpMath) return false;
  // With a bias and no ReLU, cuDNN documents only this algorithm.
  return problem.epilogue != Epilogue::kBias || hint.algorithm == kCudnnImplicitPrecompGemm;
}

}  // namespace

std::vector<ConvolutionAlgorithm> FindAlgorithms(int64_t device_id, ffi::ShapeView numbers) {
  const Convolution& of = FindConvolution(numbers);
  FindDevice(device_id);
  const ContextScope context(static_cast<int>(device_id));
  CudnnContext handle = CurrentHandle(static_cast<int>(device_id));
  const Cudnn& cudnn = Cudnn::Get();
  std::vector<ConvolutionAlgorithm> algorithms;
  for (const CudnnAlgorithmHint& hint : Hints(handle, of)) {
    // It may be listed twice, with and without tensor cores; the descriptor decides between them.
    const bool known = std::any_of(
        algorithms.begin(), algorithms.end(),
        [&](const ConvolutionAlgorithm& other) { return other.algorithm == hint.algorithm; });
    if (known || !IsUsable(hint, of.problem)) continue;
    size_t bytes = 0;
    const int status = cudnn.cudnnGetConvolutionForwardWorkspaceSize.Try(
        handle, of.x.get(), of.w.get(), of.convolution.get(), of.y.get(), hint.algorithm, &bytes);
    if (status >= kBadParameter && status < kInternalError) continue;
    cudnn.cudnnGetConvolutionForwardWorkspaceSize.Check(status);
    algorithms.push_back({hint.algorithm, static_cast<int64_t>(bytes)});
  }
  return algorithms;
}

void RunConvolution(ffi::PackedArgs args) {
  std::vector<ffi::TensorView> tensors = LeadingTensors(args);
  const std::vector<int64_t> numbers = Numbers(args.Slice(static_cast<int>(tensors.size())));
  TVM_IOS_REQUIRE(!numbers.empty() && numbers[0] >= 0 && numbers[0] <= kLastAlgorithm, ValueError)
      << "behind the tensors of a convolution comes an algorithm from 0 to " << kLastAlgorithm;
  const Convolution& of = FindConvolution(ffi::ShapeView(numbers.data() + 1, numbers.size() - 1));
  Issue(of, Operands(of.problem, std::move(tensors)), static_cast<int>(numbers[0]));
}

}  // namespace cuda
}  // namespace tvm_ios
