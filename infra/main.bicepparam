// Flex Consumption. The values come from the environment: azd sets those that
// begin with AZURE_ and keeps the others when told by azd env set.
using './main.bicep'

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'orderflow')
param location = readEnvironmentVariable('AZURE_LOCATION')
param databaseAdministratorName = readEnvironmentVariable('DATABASE_ADMIN_NAME')
param databaseAdministratorObjectId = readEnvironmentVariable('DATABASE_ADMIN_OBJECT_ID')
param databaseAdministratorType = readEnvironmentVariable('DATABASE_ADMIN_TYPE', 'Group')
