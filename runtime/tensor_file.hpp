#pragma once
// Named arrays in a file of the safetensors layout: eight bytes of header length, a JSON header, the data. Written and
// read without a copy in between; Python opens it with safetensors.
#include <memory>
#include <string>

#include "models/learner_image.hpp"
#include "models/text/mapped_file.hpp"
#include "runtime/durable_file.hpp"

namespace millrace {

expected<FileSum> write_tensor_file(const std::string& path, const TensorViews& tensors);

class TensorFile {
 public:
  // Maps the file. Errors: not what was summed up when it was written; no well-formed header.
  static expected<TensorFile> open(const std::string& path, const FileSum& sum);
  const TensorViews& tensors() const { return tensors_; }  // valid as long as the file is open

 private:
  explicit TensorFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  TensorViews tensors_;
};

}  // namespace millrace
