"""Operations of the tag Audit."""
