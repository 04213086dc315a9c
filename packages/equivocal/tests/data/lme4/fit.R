# Fits the trials of this folder by lme4 and writes what it finds: Rscript fit.R
library(lme4)
trials <- read.csv("trials.csv")
plain <- "~ x + (1 | participant) + (1 | item)"
random <- c(intercepts = plain, slopes = paste(plain, "+ (0 + x | participant)"))
rows <- list()
for (size in c("large", "small")) for (kind in names(random)) for (family in c("normal", "binomial")) {
  own <- if (size == "large") trials else subset(trials, participant < 8 & item < 6)
  if (family == "normal") {
    likelihood <- lmer(paste("rt", random[[kind]]), own, REML = FALSE,
                       control = lmerControl(optCtrl = list(xtol_abs = 1e-12, ftol_abs = 1e-12)))
    fit <- update(likelihood, REML = TRUE)
  } else {
    likelihood <- fit <- glmer(paste("said", random[[kind]]), own, family = binomial,
                               control = glmerControl(tolPwrss = 1e-10))
  }
  rows[[length(rows) + 1]] <- data.frame(
    size, kind, family, trials = nrow(own), logLik = as.numeric(logLik(likelihood)),
    intercept = fixef(fit)[[1]], x = fixef(fit)[[2]],
    intercept_error = sqrt(diag(vcov(fit)))[[1]], x_error = sqrt(diag(vcov(fit)))[[2]],
    version = as.character(packageVersion("lme4")))
}
found <- as.data.frame(lapply(do.call(rbind, rows), function(it) trimws(format(it, digits = 10))))
write.csv(found, "fits.csv", row.names = FALSE, quote = FALSE)
