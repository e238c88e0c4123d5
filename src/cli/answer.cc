#include "cli/answer.h"

#include <nlohmann/json.hpp>

namespace htpipe::cli {

Answer::Answer() : json(std::make_unique<Json>(Json::object())) {}
Answer::Answer(Answer&&) noexcept = default;
Answer& Answer::operator=(Answer&&) noexcept = default;
Answer::~Answer() = default;

}  // namespace htpipe::cli
