// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn_descriptors.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

int TypeOf(const ConvolutionProblem& problem) {
  switch (problem.precision) {
    case Precision::kFloat16:
      return kCudnnHalf;
    case Precision::kBfloat16:
      return kCudnnBfloat16;
    default:
      return kCudnnFloat;
  }
}

int MathOf(const ConvolutionProblem& problem) {
  switch (problem.precision) {
    case Precision::kFloat32:
      return kCudnnFmaMath;
    case Precision::kTf32:
      return kCudnnDefaultMath;
    default:
      return kCudnnTensorOpMath;
  }
}

int FormatOf(const ConvolutionProblem& problem) {
  return problem.layout == TensorLayout::kChannelsLast ? kCudnnNhwc : kCudnnNchw;
}

/*! \brief Create a descriptor; it is owned before it is set. */
template <typename Owned, typename Descriptor>
Owned Make(const CudnnCall<Descriptor*>& create) {
  Descriptor descriptor = nullptr;
  create(&descriptor);
  return Owned(descriptor);
}

TensorHandle MakeTensor(const ConvolutionProblem& problem, int batch, int channels, Extent size) {
  const Cudnn& cudnn = Cudnn::Get();
  auto tensor = Make<TensorHandle>(cudnn.cudnnCreateTensorDescriptor);
  cudnn.cudnnSetTensor4dDescriptor(tensor.get(), FormatOf(problem), TypeOf(problem), batch,
                                   channels, size.rows, size.columns);
  return tensor;
}

FilterHandle MakeFilter(const ConvolutionProblem& problem) {
  const Cudnn& cudnn = Cudnn::Get();
  auto filter = Make<FilterHandle>(cudnn.cudnnCreateFilterDescriptor);
  cudnn.cudnnSetFilter4dDescriptor(filter.get(), TypeOf(problem), FormatOf(problem),
                                   problem.out_channels, problem.in_channels / problem.groups,
                                   problem.kernel.rows, problem.kernel.columns);
  return filter;
}

ConvolutionHandle MakeConvolution(const ConvolutionProblem& problem) {
  const Cudnn& cudnn = Cudnn::Get();
  auto convolution = Make<ConvolutionHandle>(cudnn.cudnnCreateConvolutionDescriptor);
  cudnn.cudnnSetConvolution2dDescriptor(
      convolution.get(), problem.padding.rows, problem.padding.columns, problem.stride.rows,
      problem.stride.columns, problem.dilation.rows, problem.dilation.columns,
      kCudnnCrossCorrelation, kCudnnFloat);
  cudnn.cudnnSetConvolutionGroupCount(convolution.get(), problem.groups);
  cudnn.cudnnSetConvolutionMathType(convolution.get(), MathOf(problem));
  return convolution;
}

ActivationHandle MakeActivation(const ConvolutionProblem& problem) {
  const Cudnn& cudnn = Cudnn::Get();
  const bool relu = problem.epilogue == Epilogue::kBiasRelu;
  auto activation = Make<ActivationHandle>(cudnn.cudnnCreateActivationDescriptor);
  cudnn.cudnnSetActivationDescriptor(activation.get(), relu ? kCudnnRelu : kCudnnIdentity,
                                     kCudnnNotPropagateNan, 0.0);
  return activation;
}

struct Cache {
  std::mutex mutex;
  std::map<std::vector<int64_t>, std::unique_ptr<const Convolution>> convolutions;
};

}  // namespace

Convolution::Convolution(const ConvolutionProblem& of)
    : problem(of),
      x(MakeTensor(of, of.batch, of.in_channels, of.image)),
      w(MakeFilter(of)),
      bias(MakeTensor(of, 1, of.out_channels, {1, 1})),
      y(MakeTensor(of, of.batch, of.out_channels, of.result())),
      convolution(MakeConvolution(of)),
      activation(MakeActivation(of)) {}

const Convolution& FindConvolution(ffi::ShapeView numbers) {
  // Never destroyed: threads may use it after static objects are destroyed.
  static Cache& cache = *std::make_unique<Cache>().release();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  std::vector<int64_t> key(numbers.begin(), numbers.end());
  const auto known = cache.convolutions.find(key);
  if (known != cache.convolutions.end()) return *known->second;
  auto made = std::make_unique<const Convolution>(ReadConvolution(numbers));
  return *cache.convolutions.emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace cuda
}  // namespace tvm_ios
